"""Hallucination without an object list: computed examples, properties, bad input."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.errors import InputError
from capmeter.evaluation.base import RunContext
from capmeter.evaluation.registry import parse
from capmeter.judgments.benchmarks import find_benchmark
from capmeter.meta.agreement import run
from capmeter.metrics.hallucination.hallucination import (
    CaptionFindings,
    Hallucination,
    Word,
    _ContentVocabulary,
    _document_logit,
    _missing_agreement,
    _SentenceFindings,
    content_words,
    find_errors,
    split_text,
)
from capmeter.metrics.own.capmeter import SentenceReading
from capmeter.metrics.own.words import label_words

REFERENCES = ("a brown dog runs on the grass", "a dog is running outside on a lawn")


def captions(*texts: str, references: tuple[str, ...] = REFERENCES) -> CaptionSet:
    return CaptionSet.from_captions([Caption(str(k), "1", text, references) for k, text in enumerate(texts)])


@pytest.mark.neural
@pytest.mark.meteor
def test_an_unsupported_noun_is_found() -> None:
    right, wrong, empty = (
        Hallucination()
        .measure(captions("a dog runs on the grass", "a dog runs on the piano", ""), RunContext())
        .values.tolist()
    )
    assert right[0] < 0.5 < wrong[0] and wrong[1] > right[1] == 0
    assert empty == [0, 0]
    (evidence,) = Hallucination().explain(captions("a dog runs on the piano."), RunContext())
    assert evidence.candidate[int(np.argmin(evidence.word_scores))] == "piano."
    assert [(evidence.candidate[mark.start], mark.side) for mark in evidence.marks] == [("piano.", "candidate")]


@pytest.mark.neural
@pytest.mark.meteor
def test_scores_do_not_depend_on_other_captions_or_the_order_of_references() -> None:
    texts = ("a dog runs on the piano", "two cats")
    together = Hallucination().measure(captions(*texts), RunContext()).values
    alone = [
        Hallucination().measure(captions(text, references=REFERENCES[::-1]), RunContext()).values for text in texts
    ]
    assert together == pytest.approx(np.concatenate(alone), abs=1e-4)
    assert parse("hallucination").lower_is_better


def test_texts_of_several_sentences() -> None:
    assert split_text("A dog. It runs!\n\n- ...\nfast") == ["A dog.", "It runs!", "fast"]
    assert _document_logit("A dog runs.", ["a dog runs", "a dog"]) == pytest.approx(2 * (0 - 2) / 2.5)
    assert _document_logit("a cow", ["a dog runs"]) > _document_logit("a dog", ["a dog runs"])


def test_content_words_have_their_places() -> None:
    (words,) = content_words(["The man's two dogs, running!"])
    assert [(word.place, word.lemma, word.names_thing) for word in words] == [
        (1, "man", True),
        (2, "two", False),
        (3, "dog", True),
        (4, "run", False),
    ]


def test_a_possessive_is_its_noun_however_its_apostrophe_is_written() -> None:
    straight, curly = content_words(["a dog's ball", "a dog\u2019s ball"])
    assert straight == curly and [each.lemma for each in curly] == ["dog", "ball"]


def word(location: int, lemma: str, names_thing: bool = True) -> Word:
    return Word(location, lemma, lemma, names_thing)


def sentence_findings(right: float) -> _SentenceFindings:
    verdicts = label_words(("red", "kite", "dog"), (1.0, 1.0, 1.0), ())
    return _SentenceFindings(
        words=(word(0, "red", False), word(1, "kite"), word(2, "dog")),
        reading=SentenceReading("red kite dog", [right, 0.5, 1e-9], [0.2, 0.5, 0.0], verdicts),
        named=np.array([False, True, True]),
        shown=np.array([False, False, True]),
    )


def test_the_formula_by_hand() -> None:
    """The adjective's error is half of 4 · .8 − ln .1, the noun's 4 · .5 − ln .5, an object's 0."""
    doubted, certain = sentence_findings(0.1), sentence_findings(1.0)
    assert doubted.word_errors == pytest.approx([2.7512925, 2.6931472, 0], abs=1e-6)
    assert doubted.unsupported.tolist() == [True, False, False]
    one = CaptionFindings([doubted], cosine=0.75, missing=0.5)
    assert one.quantities == pytest.approx((0.25, 2.7512925, 0.5), abs=1e-6)
    assert one.logit == pytest.approx(6.0 * 0.25 + 0.53 * 2.7512925 + 0.4 * 0.5 - 3.1, abs=1e-6)
    two = CaptionFindings([doubted, certain], cosine=0.75, missing=0.5)
    assert two.quantities[1] == pytest.approx((2.7512925 + 2.6931472) / 2, abs=1e-6)


@pytest.mark.meteor
def test_agreement_on_what_a_caption_misses() -> None:
    """Three of four references name a kite, which the candidate lacks: (3 − 1) / (4 − 1). A dog is not missing."""
    references = [[word(0, "dog"), word(1, "kite")], [word(0, "kite")], [word(0, "kite"), word(2, "tree")], []]
    dog = _ContentVocabulary.from_words([word(0, "dog")])
    assert _missing_agreement(dog, references) == pytest.approx(2 / 3)
    assert (
        _missing_agreement(_ContentVocabulary.from_words([word(0, "kite")]), references) == 0
    )  # one reference alone names a dog
    assert _missing_agreement(dog, [[word(0, "kite")]]) == 0
    view = [[word(0, "view", False)]] * 3
    assert _missing_agreement(dog, view) == 0
    assert _ContentVocabulary.from_words([word(0, "car")]).names(word(0, "automobile"))


@pytest.mark.meteor
def test_agreement_does_not_depend_on_the_order_of_references() -> None:
    """A thing is named if the candidate has the stem of one of its forms."""
    references = [[Word(0, "qx", "qxone", True)], [Word(0, "qx", "qxtwo", True)]]
    candidate = _ContentVocabulary.from_words([Word(0, "qy", "qxone", True)])
    assert _missing_agreement(candidate, references) == _missing_agreement(candidate, references[::-1]) == 0


@pytest.mark.neural
@pytest.mark.meteor
def test_what_is_read_of_each_sentence() -> None:
    """A word that a reference has in the same sentence is close to it; the cosine is that of the whole caption."""
    part = captions("A dog runs on the grass. A piano stands there.", "a dog runs on the grass", "...")
    several, single, empty = find_errors(part, RunContext())
    (grass, piano), (same,) = several.sentences, single.sentences
    assert [len(each.words) for each in (grass, piano)] == [3, 2] and single.missing == 0
    assert piano.nearest[0] < same.nearest[0] <= 1 + 1e-6 and not piano.named[0] and same.named.all()
    assert several.cosine < single.cosine and not empty.sentences


@pytest.mark.neural
@pytest.mark.meteor
def test_parts_of_many_captions_are_scored_as_the_whole() -> None:
    """Also where captions of several sentences, empty ones and their neighbours are read in different blocks."""
    texts = ("a dog runs on the piano", "A dog runs. Two cats sit there.", "", "two cats on a lawn")
    part = captions(*(texts[k % 4] for k in range(300)))
    total = Hallucination().measure(part, RunContext()).values
    expected = Hallucination().measure(captions(*texts), RunContext()).values
    np.testing.assert_allclose(total, np.tile(expected, (75, 1)), atol=1e-6)


@pytest.mark.neural
@pytest.mark.meteor
def test_references_without_a_word() -> None:
    for text in ("...", ""):
        (row,) = Hallucination().measure(captions("a dog", references=(text,)), RunContext()).values.tolist()
        assert 0.5 < row[0] <= 1


@pytest.mark.neural
@pytest.mark.meteor
def test_objects_of_a_file_support_words(tmp_path: Path) -> None:
    path = tmp_path / "objects.json"
    path.write_text(json.dumps({"1": ["Piano", "dining table"]}))
    part = captions("a dog runs on the piano", "a dog runs on the sofa")
    (alone, with_file) = (parse("hallucination"), parse(f'hallucination(objects="{path}")'))
    before, after = (metric.measure(part, RunContext()).values[:, 0] for metric in (alone, with_file))
    change = after - before
    assert change[0] < -0.1 and abs(change[1]) < abs(change[0])
    facts = with_file.signature_facts(RunContext())
    assert facts["objects"].startswith("objects.json/") and "objects" not in alone.signature_facts(RunContext())
    other = CaptionSet.from_captions([Caption("1", "2", "a dog", REFERENCES)])
    with pytest.raises(InputError, match=r"objects.json: it has no objects of 1 of the images, 2"):
        with_file.measure(other, RunContext())
    assert [mark for each in Hallucination(objects=str(path)).explain(part, RunContext()) for mark in each.marks]


@pytest.mark.neural
@pytest.mark.meteor
def test_objects_of_a_file_support_words_of_documents(tmp_path: Path) -> None:
    """Of texts of several sentences a word that names an object does not count among those that no reference has."""
    path = tmp_path / "objects.json"
    path.write_text(json.dumps({"1": ["piano"]}))
    references = ("A dog runs. It is wet.", "A brown dog is there. It runs.")
    part = captions("A dog runs. Two pianos stand there.", references=references)
    plain, with_file = (
        Hallucination(objects=name).measure(part, RunContext()).values[0, 0] for name in ("", str(path))
    )
    logits = [float(np.log(score / (1 - score))) for score in (plain, with_file)]
    # u = two, pianos, stand; then two, stand. v = a dog, dog runs; R = (6 + 7) / 2
    assert logits == pytest.approx([2 * (2 * 3 - 2) / 6.5, 2 * (2 * 2 - 2) / 6.5])


@pytest.mark.neural
@pytest.mark.meteor
def test_hallucinated_captions_of_hat_are_found(shared: Path) -> None:
    path = shared / "data" / "hat.jsonl.gz"
    if not path.exists():
        pytest.skip("needs hat")
    assert find_benchmark("hat").name == "hat"
    report = run("hallucination", benchmark="hat", data=path, sample=True, resamples=50)
    value, (length,) = report["hallucination"].value, report.of("length")
    assert value is not None and length.value is not None and value > max(63, length.value)
