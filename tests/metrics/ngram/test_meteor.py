from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from gzip import decompress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.meteor_java import JavaMeteor
from support.caption_sets import ROWS, caption_set
from support.official_scores import SETS, official, tokenised
from support.plain_meteor import small_release

import capmeter
from capmeter.core.errors import AssetError, InputError, MissingBackend
from capmeter.evaluation.base import RunContext
from capmeter.evaluation.evidence import Link
from capmeter.evaluation.registry import parse
from capmeter.evaluation.runner import evaluate, score
from capmeter.metrics.ngram.meteor import COLUMNS, Meteor
from capmeter.text.meteor import resources as meteor_resources
from capmeter.text.meteor.resources import ENVIRONMENT, INSTALL_COMMAND, JAR, meteor_status

PLAIN = Meteor(tokenizer="whitespace")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Meteor:
    """METEOR over a release of a few words: no package needed."""
    folder = tmp_path_factory.mktemp("meteor")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CAPMETER_CACHE", str(folder / "cache"))
        metric = Meteor(tokenizer="whitespace", path=str(small_release(folder / "release")))
        measure(metric, [("a", ["a"])])
    return metric


def measure(metric: Meteor, rows: list[tuple[str, list[str]]]):
    return evaluate(caption_set(rows), [metric])[metric]


def test_by_hand(small: Meteor) -> None:
    scores = measure(small, [("the dogs ran", ["the dog ran home", "geese"])])
    # exact: "the" (function), "ran"; stem: dogs; one chunk of three words on both sides
    p = (0.75 * (1 + 0.6) + 0.25) / (0.75 * 2 + 0.25)
    r = (0.75 * (1 + 0.6) + 0.25) / (0.75 * 3 + 0.25)
    f = 1 / (0.15 / p + 0.85 / r)
    assert scores.items["i0"] == pytest.approx(f * (1 - 0.6 * (1 / 3) ** 0.2), abs=1e-15)
    assert scores.parts == {
        "mean": scores.score,
        "precision": pytest.approx(p),
        "recall": pytest.approx(r),
        "f-mean": pytest.approx(f),
        "fragmentation": pytest.approx(1 / 3),
        "penalty": pytest.approx(0.6 * (1 / 3) ** 0.2),
        "chunks": 1.0,
    }


@pytest.mark.meteor
def test_captions_of_a_set_that_was_analysed_before_score_as_in_it() -> None:
    """The vocabulary is that of the set: words that the caption lacks have synonyms and paraphrases in it."""
    folder = Path(__file__).resolve().parents[3] / "examples"
    captions = capmeter.load(folder / "weak.json", references=folder / "references.json")
    total = Meteor().measure(captions, RunContext()).values
    for row in range(len(captions)):
        assert Meteor().measure(captions.select([row]), RunContext()).values.tolist() == [total[row].tolist()]


def test_the_corpus_score_sums_counts_and_leaves_out_a_perfect_captions_chunk(small: Meteor) -> None:
    rows = [("a red car", ["a red car"]), ("dog", ["a dog"])]
    scores = measure(small, rows)
    assert scores.items["i0"] == 1.0
    # words: 4 content-ish of 3 + 1; all candidate words match; the reference misses one function word
    p = 1.0
    r = (0.75 * 3 + 0.25) / (0.75 * 3 + 0.25 * 2)
    assert scores.score == pytest.approx(1 / (0.15 / p + 0.85 / r) * (1 - 0.6 * (1 / 4) ** 0.2), abs=1e-15)
    assert scores.parts["mean"] == pytest.approx(np.mean(list(scores.items.values())), abs=1e-15)
    assert scores.parts["chunks"] == 1.0


def test_the_first_of_the_best_references_counts_and_no_empty_text(small: Meteor) -> None:
    metric_values = small.measure(caption_set([("a dog", ["cat", "a dog x", "x a dog", "a"])]), RunContext()).values
    assert metric_values[0, COLUMNS.index("reference-words")] == 3
    [evidence] = small.explain(caption_set([("a dog", ["cat", "a dog x", "x a dog", "a"])]), RunContext())
    assert evidence.facts["best reference"] == 2.0
    scores = measure(small, [("", ["a"]), ("", [""]), ("a", [""]), ("a", ["", "a"]), ("the", ["a"])])
    assert list(scores.items.values()) == [0.0, 0.0, 0.0, 1.0, 0.0]
    assert scores.notes == {"empty candidate": ["i0", "i1"]}
    assert all(np.isfinite(part.array).all() for part in scores.part_items.values())


def test_explanation_is_the_alignment(small: Meteor) -> None:
    rows = [("the geese saw many cars", ["x", "a lot of birds saw the automobile"])]
    [evidence] = small.explain(caption_set(rows), RunContext())
    assert evidence.candidate == ("the", "geese", "saw", "many", "cars")
    assert evidence.references[1] == ("a", "lot", "of", "birds", "saw", "the", "automobile")
    assert evidence.links == (
        Link((3, 4), 1, (0, 3), "paraphrase", 0.6),
        Link((1, 2), 1, (3, 4), "synonym", 0.8),
        Link((2, 3), 1, (4, 5), "exact", 1.0),
        Link((0, 1), 1, (5, 6), "exact", 1.0),
        Link((4, 5), 1, (6, 7), "synonym", 0.8),
    )
    assert evidence.marks == ()
    scores = measure(small, rows)
    assert {name: evidence.facts[name] for name in ("precision", "recall", "penalty", "chunks")} == {
        name: scores.part_items[name]["i0"] for name in ("precision", "recall", "penalty", "chunks")
    }
    [other] = small.explain(caption_set([("dog", ["a cat"])]), RunContext())
    assert [(mark.side, mark.start) for mark in other.marks] == [("candidate", 0), ("reference", 0), ("reference", 1)]


def test_references_joined_into_one(small: Meteor) -> None:
    joined = Meteor(tokenizer="whitespace", path=small.path, references="cat")
    rows = [("a red dog on it", ["a dog", "red car on it", ""])]
    assert (
        measure(joined, rows).items["i0"] == measure(small, [("a red dog on it", ["a dog red car on it"])]).items["i0"]
    )


def test_ptb_tokens_then_the_normaliser(small: Meteor) -> None:
    metric = Meteor(path=small.path)
    rows = [("A half-red Dog's car.", ["a half red dog 's car"])]
    assert measure(metric, rows).items["i0"] == 1.0


def test_the_separator_of_the_programs_pipe_is_no_word(small: Meteor) -> None:
    assert measure(small, [("a ||| dog", ["a dog"]), ("a dog", ["a ||| dog"])]).items.array.tolist() == [1.0, 1.0]


@settings(max_examples=25)
@given(ROWS)
def test_properties(small, rows) -> None:
    scores = measure(small, rows)
    assert ((scores.items.array >= 0) & (scores.items.array <= 1)).all()
    assert 0 <= scores.score <= 1
    backwards = measure(small, [(one, many[::-1]) for one, many in rows[::-1]])
    assert np.array_equal(backwards.items.array[::-1], scores.items.array)
    captions = caption_set(rows)
    parts = [small.measure(part, RunContext()).values for part in captions.chunks(3)]
    assert np.array_equal(np.concatenate(parts), small.measure(captions, RunContext()).values)


@given(ROWS)
def test_a_perfect_candidate_scores_one(small, rows) -> None:
    same = [(many[0], many) for _, many in rows if many[0].strip()]
    if same:
        assert set(measure(small, same).items.array.tolist()) == {1.0}


def test_text_form_and_signature(small: Meteor) -> None:
    metric = parse('meteor(language=fr,path="/some where/m")')
    assert metric == Meteor(language="fr", path="/some where/m")
    assert parse(str(metric)) == metric
    facts = small.signature_facts(RunContext())
    assert facts["modules"] == "exact*1+stem*0.6+synonym*0.8+paraphrase*0.6"
    assert facts["parameters"] == "0.85/0.2/0.6/0.75"


def test_a_language_without_a_table_has_its_other_modules(small: Meteor) -> None:
    french = Meteor(language="fr", tokenizer="whitespace", path=small.path)
    assert french.signature_facts(RunContext())["modules"] == "exact*1+stem*0.2"
    scores = measure(french, [("l'homme courait", ["l'homme court ici"])])
    assert 0 < scores.score < 1


@pytest.mark.parametrize("wrong", [{"language": "english"}, {"references": "best"}, {"tokenizer": "moses"}])
def test_wrong_parameters_are_named(wrong: dict[str, str]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong.values()))):
        Meteor(**wrong)


def test_missing_resources_name_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    monkeypatch.setattr("capmeter.core.assets.package_folder", lambda *inner: None)
    with pytest.raises(MissingBackend) as missing:
        measure(PLAIN, [("a", ["a"])])
    assert INSTALL_COMMAND in str(missing.value)
    assert meteor_status() == (False, str(missing.value))
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path))
    with pytest.raises(AssetError, match=f"{ENVIRONMENT}.*no {JAR}|no {JAR}"):
        measure(PLAIN, [("a", ["a"])])
    with pytest.raises(AssetError, match="the parameter path"):
        measure(Meteor(path=str(tmp_path / "nowhere")), [("a", ["a"])])


def test_a_broken_jar_is_an_error(tmp_path: Path) -> None:
    (tmp_path / JAR).write_bytes(b"PK no zip")
    with pytest.raises(AssetError, match="damaged"):
        measure(Meteor(path=str(tmp_path)), [("a", ["a"])])


def test_a_jar_with_damaged_bytes_is_an_error_or_gives_the_same_score(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAPMETER_CACHE", str(tmp_path / "cache"))
    release = small_release(tmp_path / "release")
    pairs = [("a dog runs", ["the dog ran"])]
    right = measure(Meteor(path=str(release)), pairs).score
    good, generator, errors = (release / JAR).read_bytes(), random.Random(1), 0
    for _ in range(300):
        data = bytearray(good)
        for _ in range(generator.randrange(1, 4)):
            data[generator.randrange(len(data))] = generator.randrange(256)
        (release / JAR).write_bytes(data)
        meteor_resources.load_release.cache_clear()
        try:
            assert measure(Meteor(path=str(release)), pairs).score == right
        except AssetError as error:
            assert JAR in str(error)
            errors += 1
    meteor_resources.load_release.cache_clear()
    assert errors > 150


def test_the_state_of_the_resources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = small_release(tmp_path / "release")
    monkeypatch.setenv(ENVIRONMENT, str(release))
    monkeypatch.setenv("CAPMETER_CACHE", str(tmp_path / "cache"))
    assert "will be built on first use" in meteor_status()[1]
    measure(Meteor(tokenizer="whitespace"), [("a", ["a"])])
    ready, status = meteor_status()
    assert ready
    assert "MB" in status
    [index] = (tmp_path / "cache").glob("paraphrase*.index")
    index.write_bytes(index.read_bytes()[:-200])
    assert "damaged and will be rebuilt" in meteor_status()[1]
    (release / "data" / "paraphrase-en.gz").unlink()
    assert meteor_status()[0] is False


@pytest.mark.meteor
@pytest.mark.parametrize("name", SETS)
def test_equals_the_program(shared: Path, meteor_index: Path, name: str) -> None:
    published = official(shared, name)
    saved = json.loads(decompress((shared / "oracles" / f"classic_{name}.json.gz").read_bytes()))
    ours = evaluate(published.captions, [PLAIN])[PLAIN]
    assert np.abs(ours.items.array - published.items["meteor"]).max() == 0.0
    assert ours.score == published.corpus["meteor"]
    rows = np.array([line.split() for line in saved["meteor_stats"]], np.float64)
    assert np.array_equal(PLAIN.measure(published.captions, RunContext()).values[:, : len(COLUMNS)], rows)


@pytest.mark.meteor
def test_equals_the_program_on_odd_captions(shared: Path, meteor_index: Path) -> None:
    saved = json.loads(decompress((shared / "oracles" / "edge_classic.json.gz").read_bytes()))
    captions = tokenised([case["cand"] for case in saved["cases"]], [case["refs"] for case in saved["cases"]])
    ours = evaluate(captions, [PLAIN])[PLAIN]
    assert ours.items.array.tolist() == [float(each["eval"][0]) for each in saved["meteor_single"]]


@pytest.mark.meteor
@pytest.mark.slow
@pytest.mark.parametrize("language", ["en", "fr", "de", "pt"])
def test_equals_the_java_program(meteor_index: Path, language: str) -> None:
    if shutil.which("java") is None:
        pytest.skip("needs a Java runtime")
    chance = random.Random(language)
    words = [
        "a",
        "the",
        "of",
        "in",
        "on",
        "man",
        "men",
        "people",
        "dog",
        "dogs",
        "runs",
        "ran",
        "running",
        "big",
        "large",
        "automobile",
        "cars",
        "variants",
        "gelato",
    ]
    words += ["'s", ",", "half-open", "No.", "5", "é", "in order to", "a number of", "courir", "hunde", "gatos"]

    def sentence() -> str:
        return " ".join(chance.choice(words) for _ in range(chance.randint(0, 22)))

    rows = [(sentence(), [sentence() for _ in range(chance.randint(1, 4))]) for _ in range(400)]
    metrics = [kind(tokenizer="whitespace", language=language) for kind in (Meteor, JavaMeteor)]
    captions = caption_set(rows)
    ours, java = (metric.measure(captions, RunContext()).values for metric in metrics)
    assert np.array_equal(ours, java)


@pytest.mark.meteor
def test_cold_start_loads_nothing_heavy(meteor_index: Path) -> None:
    code = (
        "import sys; from capmeter.metrics.ngram.meteor import Meteor; Meteor().resources;"
        "print([name for name in ('nltk', 'scipy', 'pycocoevalcap', 'pandas', 'torch') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_repetitive_caption_is_aligned_as_by_the_program(meteor_index) -> None:
    """The numbers are those that the Java program printed for this pair, after half a minute."""
    scored = score(candidates=["dog " * 300], references=[["dog " * 300 + "runs"]], metrics="meteor")["meteor"]
    assert scored.values is not None
    assert scored.values[0, :23].tolist() == [300, 301, 0, 0, 300, 300, *[0] * 14, 1, 300, 300]
    assert scored.notes == {}


def test_captions_that_no_search_could_align_do_not_end_the_run(meteor_index) -> None:
    results = score(
        candidates=["a dog", "dog " * 250_000, "two cats", "dog " * 3_000, "dog " * 20_000],
        references=[["a dog"], ["dog runs"], ["two cats"], ["dog " * 3_000 + "runs", "dog"], ["a dog, the dog"]],
        metrics="meteor",
    )["meteor"]
    assert results.notes == {
        "too long or repetitive to be aligned with a reference, which counts as unmatched": ["1", "3", "4"]
    }
    assert (results.items["0"], results.items["2"], results.items["1"], results.items["4"]) == (1, 1, 0, 0)
    assert 0 < results.items["3"] < 0.01  # by the reference of one word, which is one of 3,000
    long = " ".join(f"word{k}" for k in range(5_000))
    assert score(candidates=[long], references=[["word7 word8"]], metrics="meteor")["meteor"].score > 0


WORDS = ("a", "the", "on", "top", "of", "dog", "dogs", "beast", "animal", "car", "automobile", "geese", "bird", "many")
SENTENCES = st.lists(st.sampled_from(WORDS), max_size=9)


@settings(max_examples=40)
@given(st.lists(st.tuples(SENTENCES, st.lists(SENTENCES, min_size=1, max_size=5)), min_size=1, max_size=6))
def test_a_caption_scores_as_with_its_best_reference_alone(small: Meteor, rows) -> None:
    texts = [(" ".join(candidate), [" ".join(words) for words in references]) for candidate, references in rows]
    together = list(measure(small, texts).items.values())
    pairs = [(candidate, [reference]) for candidate, references in texts for reference in references]
    single = iter(measure(small, pairs).items.values())
    assert together == [max(next(single) for _ in references) for _, references in texts]
