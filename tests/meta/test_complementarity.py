"""Metrics against each other, and in sums of two."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from capmeter.core.errors import InputError
from capmeter.judgments.benchmarks import find_benchmark
from capmeter.judgments.prepared import JudgedSystem, RatedCaption, prepare_points, prepare_systems
from capmeter.judgments.protocol import Protocol
from capmeter.meta.agreement import AgreementTable, measure_agreement, run
from capmeter.meta.complementarity import combine_pairs, rank_correlations
from capmeter.report.agreement import combination_table


@pytest.fixture(scope="module")
def report() -> AgreementTable:
    random = np.random.default_rng(4)
    human = random.integers(5, size=150)
    rows = [RatedCaption(str(k), str(k // 2), "x", (), (int(rating),)) for k, rating in enumerate(human)]
    ratings = prepare_points("mine", rows, Protocol(name="p", statistic="tau-b"))
    left, right = human + 2 * random.normal(size=150), 1000 * (human + 2.2 * random.normal(size=150))
    return measure_agreement(
        ratings, {"left": left, "right": right, "copy": left * 3, "flat": np.ones(150)}, resamples=200
    )


def test_rank_correlations(report: AgreementTable) -> None:
    rows = {frozenset((row.metric, row.other)): row.value for row in rank_correlations(report)}
    assert frozenset().union(*rows) == {"left", "right", "copy"}  # a constant has no rank
    assert rows[frozenset(("left", "copy"))] == pytest.approx(100)
    expected = 100 * spearmanr(report.items["left"], report.items["right"]).statistic
    assert rows[frozenset(("left", "right"))] == pytest.approx(expected)


def test_two_that_err_differently_are_better_together(report: AgreementTable) -> None:
    result = report.add(combine_pairs(report))
    sums = {frozenset(row.metric.split(" + ")): row for row in result.of("combinations")}
    gains = {frozenset(row.metric.split(" + ")): row for row in result.of("gains")}
    assert len(sums) == len(gains) == 3
    together, gain = sums[frozenset(("left", "right"))], gains[frozenset(("left", "right"))]
    better = max(report["left"].value, report["right"].value)  # type: ignore[type-var]
    assert gain.value == pytest.approx(together.value - better) and gain.low > 0
    assert gain.p < 0.05  # the scale of `right` does not matter: both are standardised
    assert gains[frozenset(("left", "copy"))].value == pytest.approx(0, abs=1e-9)


def test_one_metric_cannot_be_combined(report: AgreementTable) -> None:
    alone = measure_agreement(report.judgments, {"left": report.items["left"], "flat": np.ones(150)}, resamples=20)
    with pytest.raises(InputError, match="two metrics that vary, but there is left"):
        combine_pairs(alone)


def test_more_than_two_are_named(tmp_path: Path) -> None:
    """mean(a,b,c,standardised=true) is judged as any metric; its scores are the members' mean z-scores."""
    path = tmp_path / "rated.jsonl"
    words = ["a", "dog", "runs", "on", "green", "grass", "today"]
    rows = [
        {
            "image_id": str(k),
            "candidate": " ".join(words[: 2 + k % 6] + ["cat"] * (k % 3)),
            "references": [" ".join(words[k % 4 :] + ["bird"] * (k % 5))],
            "human": [k % 6],
        }
        for k in range(24)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    names = ["bleu-1", "rouge-l", "cider-d"]
    total = f"mean({','.join(names)},standardised=true)"
    report = run([*names, total], benchmark="rated", data=path, resamples=50)
    standard = [(report.items[name] - report.items[name].mean()) / report.items[name].std() for name in names]
    assert report.items[total] == pytest.approx(np.mean(standard, axis=0), abs=1e-9)
    assert report[total].value is not None and report.difference(total, "bleu-1").p <= 1
    raw = run("mean(bleu-1,rouge-l,cider-d)", benchmark="rated", data=path, resamples=50)
    assert raw.items["mean(bleu-1,rouge-l,cider-d)"] == pytest.approx(
        np.mean([report.items[name] for name in names], axis=0), abs=1e-12
    )


def test_a_published_sum_stands_beside_ours() -> None:
    """Sharif et al. 2019, Table 8.5: BLEU-4 + WEmbSim by ELMo, word2vec, GloVe, fastText."""
    output = [
        JudgedSystem(f"t{k}", k / 20, (), {"bleu-4": float(k * 7 % 12), "wembsim": float(k * 5 % 12)})
        for k in range(12)
    ]
    judgments = prepare_systems("coco2015", output, find_benchmark("coco2015").protocol("cui2018"))
    report = measure_agreement(judgments, dict(judgments.published_scores), resamples=20)
    result = report.add(combine_pairs(report))
    assert result.find("published_otherwise", result.of("combinations")[0].metric).value == 52.0
    table = combination_table(result)
    assert table.columns[-1] == "published" and table.rows[0][-1].startswith("other encoder: 52 (elmo, Sharif")
