"""Metrics against each other, and in sums of two."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

from capmeter.errors import InputError
from capmeter.judgments.judged import Rated, points
from capmeter.judgments.protocol import Protocol
from capmeter.meta.agreement import Report, judge
from capmeter.meta.complementarity import combined, rank_correlations


@pytest.fixture(scope="module")
def report() -> Report:
    random = np.random.default_rng(4)
    human = random.integers(5, size=150)
    rows = [Rated(str(k), str(k // 2), "x", (), (int(rating),)) for k, rating in enumerate(human)]
    judged = points("mine", rows, Protocol(name="p", statistic="tau-b"))
    left, right = human + 2 * random.normal(size=150), 1000 * (human + 2.2 * random.normal(size=150))
    return judge(judged, {"left": left, "right": right, "copy": left * 3, "flat": np.ones(150)}, resamples=200)


def test_rank_correlations(report: Report) -> None:
    names, table = rank_correlations(report)
    assert set(names) == {"left", "right", "copy"}  # a constant has no rank
    i, j, k = (names.index(name) for name in ("left", "right", "copy"))
    assert table[i, k] == pytest.approx(1) and (table == table.T).all() and (np.diag(table) == 1).all()
    assert table[i, j] == pytest.approx(spearmanr(report.items["left"], report.items["right"]).statistic)


def test_two_that_err_differently_are_better_together(report: Report) -> None:
    found = {frozenset((each.first, each.second)): each for each in combined(report)}
    assert len(found) == 3
    together = found[frozenset(("left", "right"))]
    better = max(report["left"].value, report["right"].value)
    assert together.gain.value == pytest.approx(together.agreement.value - better) and together.gain.low > 0
    assert together.gain.p < 0.05  # the scale of `right` does not matter: both are standardised
    assert found[frozenset(("left", "copy"))].gain.value == pytest.approx(0, abs=1e-9)


def test_one_metric_cannot_be_combined(report: Report) -> None:
    alone = judge(report.judgments, {"left": report.items["left"], "flat": np.ones(150)}, resamples=20)
    with pytest.raises(InputError, match="two metrics that vary, but there is left"):
        combined(alone)
