"""Benchmarks of hallucination: what is a positive, which word is blamed, and computed values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.command_line import capmeter
from support.research import needs_research

from capmeter.core.errors import InputError, ProtocolError
from capmeter.evaluation.evidence import Evidence, Mark
from capmeter.judgments.benchmarks import find_benchmark
from capmeter.judgments.prepared import Points
from capmeter.meta.agreement import run
from capmeter.meta.metric_scores import blamed_words
from capmeter.stats.ratios import AveragePrecision

HAT = [
    {"image_id": "1", "candidate": "A dog, and a cat.", "references": ["a dog"], "human": [0],
     "words": [["A", False], ["dog,", False], ["and", False], ["a", False], ["cat.", True]]},
    {"image_id": "2", "candidate": "A bus", "references": ["a bus stops"], "human": [1], "words": [["A", False]]},
    {"image_id": "3", "candidate": "A cow", "references": ["a cow"], "human": [1], "words": [["A", False]]},
]  # fmt: skip
FOIL = [
    {"image_id": "1", "category": "near-domain", "candidate_a": "a dog runs", "candidate_b": "a cat runs",
     "references": ["the dog runs"], "correct": "a", "replacement": ["dog", "cat"]},
]  # fmt: skip
FAITH = [
    {"image_id": "1", "answer": "A dog and a cat.", "subsentences": [],
     "facts": [["There is a dog.", True], ["There is a cat.", False]]},
    {"image_id": "2", "answer": "A dog.", "subsentences": [], "facts": [["There is a dog.", True]]},
]  # fmt: skip


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_average_precision_by_hand() -> None:
    """Hallucinated are 1 and 3 of four; the ranking is 1, 2, 3 = 4: (1/1 + 2/4) / 2."""
    assert AveragePrecision([1, 0, 1, 0], [0.9, 0.8, 0.5, 0.5])() == pytest.approx((1 + 2 / 4) / 2)
    assert AveragePrecision([1, 0, 0, 1], [0.0, 0.0, 0.0, 0.0])() == 0.5


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3)), min_size=2, max_size=12))
def test_average_precision_equals_that_of_scikit_learn(items: list[tuple[bool, int]]) -> None:
    metrics = pytest.importorskip("sklearn.metrics", reason="compares with scikit-learn")
    labels, scores = [int(each) for each, _ in items], [float(each) for _, each in items]
    if not any(labels):
        with pytest.raises(InputError, match="at least one 1"):
            AveragePrecision(labels, scores)
        return
    ap = AveragePrecision(labels, scores)
    assert ap() == pytest.approx(metrics.average_precision_score(labels, scores))
    doubled = ap(np.array([[1] * len(items), [2] * len(items)]))
    assert doubled == pytest.approx([ap(), ap()])


def test_hat(tmp_path: Path) -> None:
    path = write(tmp_path / "hat.jsonl", HAT)
    report = run("chair", benchmark="hat", data=path, sample=True, resamples=50)
    assert report["chair"].value == 100
    assert report.of("length")[0].value == 100  # the longest caption is the wrong one
    points = find_benchmark("hat").load(path, "localisation", sample=True)
    assert isinstance(points, Points) and points.flagged == (("cat",),)
    localised = run("chair,rouge-l", benchmark="hat", data=path, protocol="localisation", sample=True, resamples=50)
    assert localised["chair"].value == 100
    assert localised["rouge-l"].value == pytest.approx(100 / 3)  # blames "and", "a" and "cat"


def test_foils_are_points_or_pairs(tmp_path: Path) -> None:
    path = write(tmp_path / "foil.jsonl", FOIL)
    benchmark = find_benchmark("nocaps_foil")
    points = benchmark.load(path, "ap", sample=True)
    assert isinstance(points, Points)
    assert points.human.tolist() == [1, 0] and points.flagged == ((), ("cat",))
    assert run("rouge-l", benchmark="nocaps-foil", data=path, protocol="pairs", sample=True)["rouge-l"].value == 100
    assert len(benchmark.load(path, "localisation", sample=True)) == 1


def test_answers_and_facts(tmp_path: Path) -> None:
    path = write(tmp_path / "faith.jsonl", FAITH)
    objects = tmp_path / "objects.json"
    objects.write_text(json.dumps({"1": ["dog"], "2": ["dog"]}))
    metric = f'chair(objects="{objects}",references=false)'
    for protocol, count in (("answers", 2), ("facts", 3)):
        report = run(metric, benchmark="faithscore", data=path, protocol=protocol, sample=True, resamples=50)
        assert (report.results[0].value, report.results[0].n) == (100, count)


def test_which_words_are_blamed() -> None:
    words = ("a", "red", "dog", ".")
    assert blamed_words(Evidence(words, (), word_scores=(0.2, 0.2, 0.8, 0.1))) == ["a", "red"]
    marks = (Mark("candidate", None, 0, 1, "unmatched"), Mark("candidate", None, 1, 3, "hallucinated"))
    assert blamed_words(Evidence(words, (), marks=marks)) == ["red", "dog"]
    assert blamed_words(Evidence(words, ())) == []


BAD: list[tuple[str, str, dict[str, Any], str]] = [
    ("hat", "ap", {**HAT[0], "words": ["dog"]}, "'words' is"),
    ("hat", "ap", {**HAT[0], "words": [["dog", "false"]]}, "'words' is .*'dog', 'false'.* is in it"),
    ("hat", "ap", {**HAT[0], "human": []}, "'human' is .*; expected 1"),
    ("faithscore", "answers", {**FAITH[0], "facts": ["dog"]}, "'facts' is"),
    ("faithscore", "facts", {**FAITH[0], "facts": [["There is a dog.", "false"]]}, "'facts' is"),
    ("nocaps-foil", "ap", {**FOIL[0], "correct": "c"}, "expected a, b or tie"),
    ("nocaps-foil", "ap", {**FOIL[0], "correct": "tie"}, "'correct' is 'tie'; expected a or b"),
    ("nocaps-foil", "localisation", {**FOIL[0], "replacement": ["cat"]}, "'replacement' is .*; expected the noun"),
]


@pytest.mark.parametrize(("name", "protocol", "row", "message"), BAD)
def test_bad_rows_get_a_sentence(tmp_path: Path, name: str, protocol: str, row: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        find_benchmark(name).load(write(tmp_path / "rows.jsonl", [row]), protocol, sample=True)


def test_answers_without_facts_are_noted(tmp_path: Path) -> None:
    path = write(tmp_path / "faith.jsonl", [*FAITH, {**FAITH[1], "image_id": "3", "facts": []}])
    answers = find_benchmark("faithscore").load(path, "answers", sample=True)
    assert isinstance(answers, Points)
    assert answers.human.tolist() == [0, 1] and answers.notes["without ratings"] == 1
    with pytest.raises(ProtocolError, match="judgments=fact, expected answers or facts"):
        find_benchmark("faithscore").load(path, "answers(judgments=fact)", sample=True)


@needs_research
def test_a_metric_without_explanations_has_no_localisation(tmp_path: Path) -> None:
    path = write(tmp_path / "hat.jsonl", HAT)
    with pytest.raises(InputError, match="does not say which words it blames"):
        run("wmd", benchmark="hat", data=path, protocol="localisation", sample=True)


def test_the_length_is_printed_beside_every_metric(tmp_path: Path) -> None:
    path = write(tmp_path / "hat.jsonl", HAT)
    printed = capmeter("meta", "-b", "hat", "-d", path, "-m", "chair", "--sample", "--resamples", 50)
    assert printed.returncode == 0, printed.stderr
    assert any(line.split()[:2] == ["-", "length"] for line in printed.stdout.splitlines())
    saved = json.loads(
        capmeter("meta", "-b", "hat", "-d", path, "-m", "chair", "--sample", "--resamples", 50, "-f", "json").stdout
    )
    assert "length" in json.dumps(saved)
