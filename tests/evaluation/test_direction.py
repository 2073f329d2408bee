"""Metrics for which lower is better: every ranking, limit and agreement obeys the direction."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.command_line import capmeter

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.errors import InputError
from capmeter.evaluation.registry import parse
from capmeter.evaluation.runner import evaluate
from capmeter.integrations.scst import reward
from capmeter.judgments.prepared import RatedCaption, prepare_points
from capmeter.judgments.protocol import Protocol
from capmeter.meta.agreement import measure_agreement
from capmeter.meta.comparison import compare
from capmeter.meta.system_ranking import rank_systems
from capmeter.report.explain import explain
from capmeter.stats.significance import Ranking

COUNT = 24
GOOD, BAD = "a dog runs", "a dog and a cat run"


def captions(text: str) -> CaptionSet:
    return CaptionSet.from_captions([Caption(str(k), str(k), text, ("a dog runs",)) for k in range(COUNT)])


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, text in (("good", GOOD), ("bad", BAD)):
        rows = [{"image_id": k, "caption": text, "references": ["a dog runs"]} for k in range(COUNT)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def test_the_best_system_has_the_lowest_score() -> None:
    systems = {"bad": captions(BAD), "good": captions(GOOD)}
    results = {name: evaluate(each, [parse("chair"), parse("rouge-l")]) for name, each in systems.items()}
    for name, ranking in rank_systems(results, resamples=100).items():
        assert ranking.best() == {"good"}, name
        assert ranking.significantly_worse("good") == {"bad"}, name
    comparison = compare(systems, "chair", permutations=1000)["chair"]
    assert [each["system"] for each in comparison.ranking] == ["good", "bad"]
    assert comparison.between("good", "bad").difference < 0
    assert comparison.between("good", "bad").wins == COUNT


def test_a_ranking_turns_round() -> None:
    values, p = {"a": 1.0, "b": 2.0}, {("a", "b"): 0.01}
    assert Ranking.from_p_values(values, p).best() == {"b"}
    assert Ranking.from_p_values(values, p, lower_is_better=True).ranks() == {"a": 1, "b": 2}


def test_agreement_is_positive_for_a_metric_that_counts_errors() -> None:
    rows = [RatedCaption(str(k), str(k), (BAD, GOOD)[k % 2], ("a dog runs",), (k % 2,)) for k in range(COUNT)]
    judgments = prepare_points("mine", rows, Protocol(name="p", statistic="tau-b"))
    chair = np.array([0.5 * (1 - k % 2) for k in range(COUNT)])
    report = measure_agreement(judgments, {"chair": chair, "rouge-l": -chair, "theirs": chair}, resamples=100)
    values = {each.metric: each.value for each in report.results}
    assert values == pytest.approx({"chair": 100, "rouge-l": 100, "theirs": -100})
    assert report.items["chair"] is chair  # as the metric gave them


def test_the_worst_captions_have_the_highest_scores() -> None:
    rows = [Caption(str(k), str(k), (GOOD, BAD)[k == 3], ("a dog runs",)) for k in range(5)]
    (worst,) = explain(CaptionSet.from_captions(rows), "chair", worst=1)
    assert worst.caption.id == "3"
    (best,) = explain(CaptionSet.from_captions(rows), "chair", worst=1, best=True)
    assert best.caption.id == "0"


def test_members_of_a_combination_have_one_direction() -> None:
    with pytest.raises(InputError, match="lower is better for chair, but not for all members"):
        parse("mean(rouge-l,chair)")
    assert parse("combine(rouge-l,chair,weights=1+-1)").lower_is_better is False
    assert parse("combine(rouge-l,chair,weights=-1+1)").lower_is_better is True
    assert parse("mean(rouge-l,bleu-4)").lower_is_better is False


LIMITS: dict[str, tuple[list[str], int, str]] = {
    "kept": (["--maximum", "chair=0.5"], 0, ""),
    "exceeded": (["--maximum", "chair=0.4"], 4, "chair is 0.5, above 0.4"),
    "wrong way": (["--minimum", "chair=0.4"], 2, "lower is better for chair; use --maximum"),
    "other way": (["--maximum", "rouge-l=0.4"], 2, "higher is better for rouge-l; use --minimum"),
}


@pytest.mark.parametrize("name", LIMITS)
def test_limits(files: Path, name: str) -> None:
    arguments, code, message = LIMITS[name]
    run = capmeter("score", files / "bad.jsonl", "-m", "chair,rouge-l", *arguments)
    assert run.returncode == code, run.stderr
    assert message in " ".join(run.stderr.replace("│", " ").split())


@pytest.mark.parametrize(
    ("command", "tables"), [(["score"], 1), (["compare"], 1), (["compare", "--control", "length"], 2)]
)
def test_tables_say_so(files: Path, command: list[str], tables: int) -> None:
    rows = [{"image_id": k, "caption": f"{BAD}{' fast' * (k % 3)}", "references": ["a dog runs"]} for k in range(COUNT)]
    (files / "bad.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run: Any = capmeter(*command, files / "bad.jsonl", files / "good.jsonl", "-m", "chair,rouge-l")
    notes = [line for line in run.stdout.splitlines() if "lower is better" in line]
    assert len(notes) == tables and all(line.endswith("lower is better: chair") for line in notes)


@pytest.mark.parametrize("names", [["bad"], ["bad", "good"]])
def test_the_page_says_so(files: Path, tmp_path: Path, names: list[str]) -> None:
    pytest.importorskip("jinja2", reason="the page needs the report extra")
    scores = tmp_path / "scores.json"
    capmeter("score", *(files / f"{name}.jsonl" for name in names), "-m", "chair,rouge-l", "-o", scores)
    assert capmeter("report", scores, "-o", tmp_path / "page.html").returncode == 0
    assert "<bdi>Lower is better: chair.</bdi>" in (tmp_path / "page.html").read_text("utf-8")


def test_a_worse_system_fails(files: Path) -> None:
    worse = capmeter("compare", files / "bad.jsonl", files / "good.jsonl", "-m", "chair", "--fail-if-worse")
    assert worse.returncode == 4 and "bad is significantly worse than good under" in worse.stderr


def test_a_reward_and_torchmetrics_turn_it_round() -> None:
    scorer = reward("chair", references={"1": ["a dog runs"]})
    assert scorer([GOOD, BAD], ["1", "1"]).tolist() == [0, -0.5]
