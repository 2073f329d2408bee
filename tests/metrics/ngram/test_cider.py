from __future__ import annotations

import json
import math
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from support.caption_sets import ROWS, caption_set
from support.official_scores import SETS, official, tokenised
from support.shared_files import read_rows

import capmeter
from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import AssetError, InputError
from capmeter.evaluation.base import CapmeterWarning, RunContext
from capmeter.evaluation.registry import parse
from capmeter.evaluation.runner import Evaluation, evaluate
from capmeter.metrics.ngram.cider import Cider, CiderD, CiderR
from capmeter.metrics.ngram.document_frequencies import DocumentFrequencies, read_frequencies

PLAIN = {"tokenizer": "whitespace"}
METRICS = [Cider(**PLAIN), CiderD(**PLAIN), CiderR(**PLAIN)]
MANY = [("a dog runs", ["a dog runs fast", "the dog runs"]), ("two cats", ["two cats sleep"]), ("x", ["y y"])]


def grams(text: str, n: int) -> Counter:
    words = text.split()
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def plainly(rows: list[tuple[str, list[str]]], kind: str) -> list[float]:
    """The three formulas with dictionaries and loops."""
    df = Counter(gram for _, many in rows for gram in {g for one in many for n in range(1, 5) for g in grams(one, n)})
    idf = lambda gram: math.log(len(rows)) - math.log(max(1, df[gram]))  # noqa: E731
    scores = []
    for candidate, references in rows:
        total = 0.0
        for reference in references:
            delta = max(len(candidate.split()) - 1, 0) - max(len(reference.split()) - 1, 0)
            penalty = 1.0
            if kind == "cider-d":
                penalty = math.exp(-(delta**2) / 72)
            if kind == "cider-r":
                relative = math.exp(-(delta**2) / max(len(reference.split()), 1) ** 2)
                candidate_counts, counts = (Counter(re.findall(r"\w+", text)) for text in (candidate, reference))
                ratios = [1 / (1 + abs(c - counts[w])) if w in counts else 1 / c for w, c in candidate_counts.items()]
                penalty = math.prod(ratios) ** (0.8 / max(len(ratios), 1)) * relative**0.2
            for n in range(1, 5):
                c = {g: k * idf(g) for g, k in grams(candidate, n).items()}
                s = {g: k * idf(g) for g, k in grams(reference, n).items()}
                product = sum((v if kind == "cider" else min(v, s.get(g, 0))) * s.get(g, 0) for g, v in c.items())
                norm = math.sqrt(sum(v * v for v in c.values())) * math.sqrt(sum(v * v for v in s.values()))
                total += penalty * (product / norm if norm else 0.0)
        scores.append(10 * total / 4 / len(references))
    return scores


@pytest.mark.filterwarnings("ignore::capmeter.evaluation.base.CapmeterWarning")
@given(ROWS)
def test_equals_the_formulas_written_plainly(rows) -> None:
    results = evaluate(caption_set(rows), METRICS)
    for metric in METRICS:
        assert results[metric].items.array == pytest.approx(plainly(rows, metric.name), abs=1e-9)


def collected(captions: CaptionSet, metric: Cider) -> DocumentFrequencies:
    return Evaluation((metric,)).with_collected_states(captions).context(metric).state


def test_by_hand() -> None:
    # idf of every unigram is ln 2; "a" matches, "b" does not: cosine 1/2 for unigrams, 0 for longer; mean of 4, × 10
    results = evaluate(caption_set([("a b", ["a c"]), ("x", ["z"])]), METRICS)
    assert results[METRICS[0]].items["i0"] == pytest.approx(10 * 0.5 / 4, abs=1e-12)
    assert results[METRICS[1]].items["i0"] == pytest.approx(10 * 0.5 / 4, abs=1e-12)


@pytest.mark.parametrize("name", SETS)
def test_equals_the_standard_code(shared: Path, name: str) -> None:
    published = official(shared, name)
    results = evaluate(published.captions, METRICS)
    for metric, key, corpus in ((METRICS[0], "cider_orig", "cider_orig"), (METRICS[1], "ciderD", "cider")):
        assert np.abs(results[metric].items.array - published.items[key]).max() <= 1e-12
        assert abs(results[metric].score - published.corpus[corpus]) <= 1e-12


def test_cider_r_has_its_authors_accuracy_on_abstract_50s(shared: Path) -> None:
    """dos Santos et al. 2021 publish (abstract_50S.csv, 48 references) CIDEr-D .8247 and CIDEr-R .8299."""
    rows = read_rows(shared / "data" / "abstract50s.jsonl.gz")
    votes = np.array([sum(row["human"]) for row in rows])
    metrics = [CiderD(), CiderR()]
    scores = [
        evaluate(tokenised([row[side] for row in rows], [row["references"] for row in rows]), metrics)
        for side in ("candidate_a", "candidate_b")
    ]
    for metric, published in zip(metrics, (0.8247422680412371, 0.8298969072164949), strict=True):
        difference = scores[0][metric].items.array - scores[1][metric].items.array
        assert np.mean((difference * votes > 0)[votes != 0]) == pytest.approx(published, abs=1e-12)


def test_one_caption_warns_that_idf_is_zero_and_says_what_to_do() -> None:
    with pytest.warns(CapmeterWarning, match="score more captions at once, or name a reference corpus"):
        scores = evaluate(caption_set([("a dog", ["a dog"])]), [CiderD()])["cider-d"]
    assert scores.score == 0.0
    assert scores.notes["idf is zero"] == ["i0"]


def test_saved_frequencies_give_the_same_scores_and_the_signature_names_them(tmp_path: Path) -> None:
    captions = caption_set(MANY)
    frequencies = collected(captions, METRICS[1])
    frequencies.save(tmp_path / "idf.npz")
    saved = CiderD(idf=str(tmp_path / "idf.npz"), **PLAIN)
    computed, again = evaluate(captions, [METRICS[1]])[METRICS[1]], evaluate(captions, [saved])[saved]
    assert np.array_equal(computed.items.array, again.items.array)
    assert "idf:run/3 documents/" in computed.signature
    assert "idf:idf.npz/3 documents/" in again.signature
    part = captions.select([0])
    assert evaluate(part, [saved])[saved].items["i0"] == computed.items["i0"]


def test_frequencies_from_a_file_of_captions(tmp_path: Path) -> None:
    path = tmp_path / "references.json"
    path.write_text(json.dumps({f"i{k}": many for k, (_, many) in enumerate(MANY)}))
    metric = CiderD(idf=str(path), **PLAIN)
    captions = caption_set(MANY)
    expected = evaluate(captions, [METRICS[1]])[METRICS[1]].items.array
    assert np.array_equal(evaluate(captions, [metric])[metric].items.array, expected)


def test_a_name_with_a_path_parses_back() -> None:
    metric = CiderD(idf='/some where/"odd", (name).json', sigma=5.0)
    assert parse(str(metric)) == metric


def test_tables_that_are_damaged_run_code_or_hold_other_ngrams_are_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.npz").write_bytes(b"PK not a zip")
    (tmp_path / "cut.npz").write_bytes(b"PK")
    np.savez(tmp_path / "evil.npz", head=np.array([{"a": 1}], dtype=object), allow_pickle=True)
    for name in ("bad", "cut", "evil"):
        with pytest.raises(AssetError, match="not a table of document frequencies"):
            evaluate(caption_set(MANY), [CiderD(idf=str(tmp_path / f"{name}.npz"))])
    collected(caption_set(MANY), CiderD(n=2)).save(tmp_path / "two.npz")
    with pytest.raises(InputError, match="n-grams up to 2"):
        evaluate(caption_set(MANY), [CiderD(idf=str(tmp_path / "two.npz"))])


@pytest.mark.parametrize(
    ("name", "message"),
    [("nowhere.npz", "expected `run`"), ("no\0where.npz", "expected `run`"), (".", "it is a folder; expected `run`")],
)
def test_a_missing_table_says_what_is_expected(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        evaluate(caption_set(MANY), [CiderD(idf=name)])


def test_of_several_files_the_missing_one_is_named_and_a_table_stands_alone(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"i0": ["a dog"]}))
    table, captions = str(tmp_path / "idf.npz"), str(tmp_path / "a.json")
    collected(caption_set(MANY), METRICS[1]).save(table)
    with pytest.raises(InputError, match=r"idf='.*absent.json'"):
        read_frequencies(captions, 4, "ptb", others=(str(tmp_path / "absent.json"),))
    for first, second in ((table, captions), (captions, table)):
        with pytest.raises(InputError, match=r"idf.npz: a saved table .* cannot be joined"):
            read_frequencies(first, 4, "ptb", others=(second,))


def test_evidence_weighs_ngrams_by_idf() -> None:
    captions = caption_set(MANY)
    state = collected(captions, METRICS[1])
    evidence = METRICS[1].explain(captions, RunContext(state=state))[0]
    weights = {evidence.candidate[slice(*link.candidate)]: link.weight for link in evidence.links}
    assert weights[("a", "dog", "runs")] == pytest.approx(math.log(3))
    assert isinstance(state, DocumentFrequencies)


def test_a_caption_whose_length_costs_nearly_everything_is_noted() -> None:
    long, references = "a dog runs " * 7, [["a dog runs"], ["a cat sits on the mat"], ["a bird"]]
    results = capmeter.score(
        candidates=[long, "a cat sits", ""], references=references, metrics="cider-d,cider,cider-d(sigma=60)"
    )
    (reason,) = (reason for reason in results["cider-d"].notes if "length penalty takes 93 %" in reason)
    assert results["cider-d"].notes[reason] == ["0"]
    assert reason not in results["cider"].notes and reason not in results["cider-d(sigma=60.0)"].notes


def test_a_caption_that_repeats_words_is_not_noted_for_its_length() -> None:
    """CIDEr-R's penalty is mostly of repetition: here L^.2 leaves 1, R^.8 next to nothing."""
    repeated = " ".join(["dog"] * 30)
    reference = " ".join(f"word{k}" for k in range(30))
    results = capmeter.score(
        candidates=[repeated, "a cat"], references=[[reference], ["a cat sits"]], metrics="cider-r"
    )
    assert not any("length penalty" in reason for reason in results["cider-r"].notes)


@pytest.mark.parametrize(
    "name",
    [
        "cider-d(sigma=1e308)",
        f"cider-d(n={'9' * 400})",
        "cider-d(sigma=0)",
        "cider-r(length=-5)",
        "cider-r(repetition=1e200)",
        "rouge-l(beta=1e200)",
    ],
)
def test_parameters_that_overflow_are_refused(name: str) -> None:
    with pytest.raises(InputError, match=r"expected .* but got|is not a whole number"):
        parse(name)


def test_a_name_without_end_is_refused() -> None:
    for depth in (10, 40, 5000):
        with pytest.raises(InputError, match="nested too deeply"):
            parse("mean(" * depth + "rouge-l" + ")" * depth)
    assert str(parse("mean(mean(rouge-l))")) == "mean(mean(rouge-l))"
