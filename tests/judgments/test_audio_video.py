"""Benchmarks of captions of sounds and of video paragraphs: FENSE's protocol by hand, and stored values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capmeter.core.errors import InputError, ProtocolError
from capmeter.judgments.benchmarks import find_benchmark
from capmeter.judgments.builders import list_fense_references
from capmeter.judgments.layouts import JudgmentRow
from capmeter.meta.agreement import measure_agreement
from capmeter.meta.metric_scores import score_judgments

FIVE = ["a", "b", "c", "d", "e"]


def row(category: str, a: str, b: str, **fields: Any) -> dict[str, Any]:
    return {"id": f"{category}{a}{b}", "image_id": "clip", "category": category, "candidate_a": a, "candidate_b": b,
            "references": FIVE, "human": [1, 1, -1, 1]} | fields  # fmt: skip


def write_file(folder: Path, rows: list[dict[str, Any]]) -> Path:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in rows))
    return path


def test_references_of_each_category() -> None:
    def lists(category: str, a: str, b: str, side: int, **fields: Any) -> list[tuple[str, ...]]:
        return list(list_fense_references(JudgmentRow(row(category, a, b, **fields), "row"), side))

    assert lists("HC", "a", "b", 0) == [("b", "c", "d", "e")] and lists("HC", "a", "b", 1) == [("a", "c", "d", "e")]
    assert lists("HI", "a", "x", 0) == lists("HM", "a", "x", 1) == [("b", "c", "d", "e")]
    assert lists("HC", "a", "b", 0, references=["a", "a", "b", "c", "d"]) == [("b", "c", "d", "b")]
    assert lists("MM", "x", "y", 0) == [tuple(text for text in FIVE if text != left) for left in FIVE]


def test_tied_votes_are_left_out_and_equal_scores_are_wrong(tmp_path: Path) -> None:
    rows = [row("HC", "a", "b"), row("MM", "x", "y", human=[1, -1, 0, 0]), row("MM", "a", "x")]
    pairs = find_benchmark("audiocaps-eval").load(write_file(tmp_path, rows), sample=True)
    assert pairs.notes == {"tied judgments": 1} and len(pairs.corpora) == 4
    assert pairs.protocol.ties == "strict"
    values, *_ = score_judgments(pairs, "rouge-l")
    assert values["rouge-l"][pairs.first].tolist() == [0, 0.8] and values["rouge-l"][pairs.second].tolist() == [0, 0]


def test_wrong_files_are_recognised(tmp_path: Path) -> None:
    path = write_file(tmp_path, [row("HC", "a", "b")])
    with pytest.raises(ProtocolError, match="has 1 rows, but clotho-eval has 1,750"):
        find_benchmark("clotho-eval").load(path)
    with pytest.raises(InputError, match="not a valid row of fluency-723: it has no text, label"):
        find_benchmark("fluency-723").load(path, sample=True)


FLUENCY = [("go go go go go", 1), ("a dog barks", 0), ("rain falls", 0), ("b b b b b c", 1)]


def test_fluency_is_the_area_under_the_curve_of_texts(tmp_path: Path) -> None:
    rows = [{"id": f"f{k}", "text": text, "label": label} for k, (text, label) in enumerate(FLUENCY)]
    texts = find_benchmark("fluency-723").load(write_file(tmp_path, rows), sample=True)
    assert texts.ids == ("f0", "f1", "f2", "f3") and texts.human.tolist() == [0, 1, 1, 0]
    assert measure_agreement(texts, {"mine": np.array([0.5, 0.5, 0.9, 0.2])})["mine"].value == 100 * 3.5 / 4


def test_intervals_of_fluency_resample_faulty_texts_too(tmp_path: Path) -> None:
    """Fluent texts all score 1, a quarter of the faulty ones do too: the value varies with the faulty texts only."""
    labels = np.repeat([0, 1], [20, 40])
    rows = [{"id": f"f{k}", "text": f"text {k}", "label": int(label)} for k, label in enumerate(labels)]
    texts = find_benchmark("fluency-723").load(write_file(tmp_path, rows), sample=True)
    scores = np.where((labels == 0) | (np.arange(60) % 4 == 0), 1.0, 0.0)
    agreement = measure_agreement(texts, {"mine": scores}, resamples=2000)["mine"]
    assert agreement.value == 87.5 and agreement.low is not None and agreement.high is not None
    # of 40 faulty texts 10 are tied with all fluent ones: a binomial share, of which each costs half
    half_width = 1.96 * 100 * (0.25 * 0.75 / 40) ** 0.5 / 2
    assert (agreement.high - agreement.low) / 2 == pytest.approx(half_width, rel=0.15)


def accuracy(pairs: Any, values: Any, category: str | None = None, ties: float = 0.0) -> float:
    signs = np.sign(values[pairs.first] - values[pairs.second]) * pairs.better
    right = np.where(signs == 0, ties, signs > 0)
    return float(100 * right[[category in (None, each) for each in pairs.groups]].mean())


@pytest.mark.parametrize("name", ["audiocaps", "clotho"])
def test_categories_of_fense(name: str, shared: Path) -> None:
    expected = json.loads((shared / "oracles" / "audio_expected.json").read_text())[name]["plain"]
    path = shared / "data" / f"{name}_eval.jsonl.gz"
    pairs = find_benchmark(f"{name}-eval").load(path, "by-category", sample=True)
    values, *_ = score_judgments(pairs, "bleu-4,rouge-l,cider-d")
    for metric, scores in values.items():
        for category in ("HC", "HI", "HM", "MM"):
            assert accuracy(pairs, scores, category) == pytest.approx(expected[metric][category], abs=0.006)
        assert accuracy(pairs, scores) == pytest.approx(expected[metric]["all"], abs=0.006)


def test_penalty_of_fense(shared: Path) -> None:
    expected = json.loads((shared / "oracles" / "audio_expected.json").read_text())["clotho"]["with_penalty"]
    pairs = find_benchmark("clotho-eval").load(shared / "data" / "clotho_eval.jsonl.gz", "by-category", sample=True)
    errors = shared / "oracles" / "fense_error_probabilities.jsonl.gz"
    values, *_ = score_judgments(pairs, f'penalised(metric=rouge-l,errors="{errors}")')
    (scores,) = values.values()
    for category in ("HC", "HI", "HM", "MM", None):
        assert accuracy(pairs, scores, category) == pytest.approx(expected["rouge-l"][category or "all"], abs=0.006)


@pytest.mark.parametrize(
    ("data", "name", "kind"), [("brace_main", "brace", "main"), ("brace_hallu", "brace-hallu", "hallu")]
)
def test_brace(data: str, name: str, kind: str, shared: Path) -> None:
    expected = json.loads((shared / "oracles" / "brace_expected.json").read_text())
    pairs = find_benchmark(name).load(shared / "data" / f"{data}.jsonl.gz", "by-set", sample=True)
    values, *_ = score_judgments(pairs, "bleu-4,rouge-l,cider-d")
    for metric, scores in values.items():
        for part in ("audiocaps", "clotho"):
            assert accuracy(pairs, scores, part, 0.5) == pytest.approx(
                expected[f"{part} {kind}"][metric]["all"], abs=0.3
            )


@pytest.mark.parametrize("name", ["activitynet", "youcook2"])
def test_factuality(name: str, shared: Path) -> None:
    expected = json.loads((shared / "oracles" / "factuality_expected.json").read_text())[name]
    benchmark = find_benchmark(f"{name}-fact")
    for level, protocol in enumerate(("paragraph", "sentence", "word")):
        points = benchmark.load(shared / "data" / f"{name}_fact.jsonl.gz", protocol, sample=True)
        values, *_ = score_judgments(points, "bleu-4,rouge-l,cider-d,cider")
        assert len(points) == expected["rows"] and "texts=letters" in str(points.protocol)
        assert {len(points.captions[id].references) for id in points.ids} == {1 + (name == "activitynet")}
        texts = " ".join(points.captions.pool.sentences)
        assert texts == texts.lower() and not set(texts) - set("abcdefghijklmnopqrstuvwxyz ")
        for metric, scores in values.items():
            correlation = np.corrcoef(scores[points.rows], points.human)[0, 1]
            assert correlation == pytest.approx(expected[metric][level], abs=1e-4)
