"""Correlations with weights, partial ones, intercepts, means over groups."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import linregress, pearsonr, rankdata, spearmanr

from capmeter.core.errors import InputError
from capmeter.stats.correlation import Intercept, MeanOfGroups, PartialCorrelation, Pearson, Spearman
from capmeter.stats.kendall import TauB


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e12])
def test_equal_scipy(seed: int, scale: float) -> None:
    random = np.random.default_rng(seed)
    x = random.integers(4, size=500)
    y = (x + random.normal(size=500) + 5) * scale
    assert Pearson(x, y)() == pytest.approx(pearsonr(x, y).statistic, abs=1e-12)
    assert Spearman(x, y)() == pytest.approx(spearmanr(x, y).statistic, abs=1e-12)


def test_perfect_and_reversed() -> None:
    x = np.arange(1000.0) + 1e6
    assert Pearson(x, x)() == pytest.approx(1.0, abs=1e-12)
    assert Spearman(x, -(x**3))() == pytest.approx(-1.0, abs=1e-12)


@given(st.integers(0, 10_000))
@settings(max_examples=100)
def test_weights_are_repetitions(seed: int) -> None:
    random = np.random.default_rng(seed)
    x, y, weights = random.integers(5, size=20), random.integers(8, size=20) / 7, random.integers(4, size=20)
    long_x, long_y = np.repeat(x, weights), np.repeat(y, weights)
    if len(set(long_x)) < 2 or len(set(long_y)) < 2:
        return
    assert Pearson(x, y)(weights) == pytest.approx(pearsonr(long_x, long_y).statistic, abs=1e-9)
    assert Spearman(x, y)(weights) == pytest.approx(spearmanr(long_x, long_y).statistic, abs=1e-9)
    both = Spearman(x, y)(np.stack([weights, weights]))
    assert both.shape == (2,) and both[0] == both[1] == Spearman(x, y)(weights)


@pytest.mark.parametrize("correlation", [Pearson, Spearman])
def test_constant_is_said(correlation) -> None:
    with pytest.raises(InputError, match="constant"):
        correlation([0.1] * 5, [1, 2, 3, 4, 5])()


def test_partial_correlation_is_that_of_the_residuals() -> None:
    """Pearson's partial correlation is the correlation of what a regression on z leaves; Spearman's, of ranks."""
    random = np.random.default_rng(0)
    z = random.normal(size=60)
    x, y = z + random.normal(size=60), 2 * z + random.normal(size=60)
    left = [values - np.polyval(np.polyfit(z, values, 1), z) for values in (x, y)]
    partial = PartialCorrelation(Pearson(x, y), Pearson(x, z), Pearson(y, z))
    assert partial() == pytest.approx(pearsonr(*left).statistic)
    ranks = [rankdata(values) for values in (x, y, z)]
    left = [values - np.polyval(np.polyfit(ranks[2], values, 1), ranks[2]) for values in ranks[:2]]
    partial = PartialCorrelation(Spearman(x, y), Spearman(x, z), Spearman(y, z))
    assert partial() == pytest.approx(pearsonr(*left).statistic)


def test_partial_tau_by_hand_and_of_resamples() -> None:
    """τ(x, y) = 1/3, τ(x, z) = 1/3, τ(y, z) = -1/3 of three points: (1/3 + 1/9) / (1 - 1/9) = 1/2."""
    x, y, z = [1, 2, 3], [1, 3, 2], [2, 1, 3]
    partial = PartialCorrelation(TauB(x, y), TauB(x, z), TauB(y, z))
    assert partial() == pytest.approx(0.5)
    assert partial(np.array([[1, 1, 1], [2, 2, 2]]))[0] == pytest.approx(0.5)
    with pytest.raises(InputError, match="determines a variable"):
        PartialCorrelation(TauB(x, y), TauB(x, x), TauB(y, x))()
    assert PartialCorrelation(TauB(x, y), TauB(x, x), TauB(y, x))(np.array([[1, 1, 1]])).tolist() == [0.0]


def test_intercept_is_scipys_for_points_and_resamples() -> None:
    random = np.random.default_rng(0)
    x, y = random.normal(3, 2, 40), random.normal(size=40)
    weights = random.integers(0, 3, (5, 40))
    line = Intercept(x, y)
    assert line() == pytest.approx(linregress(x, y).intercept)
    expected = [linregress(np.repeat(x, row), np.repeat(y, row)).intercept for row in weights]
    assert line(weights) == pytest.approx(expected)


def test_x_that_does_not_vary() -> None:
    """Where every x is 0 the intercept is the mean; where it is 2 throughout, nothing is known; a resample of one point
    takes the slope of all: the line through (1, 3) with slope 2 is 1 at 0."""
    assert Intercept([0, 0], [1, 2])() == 1.5
    with pytest.raises(InputError, match="every x is 2"):
        Intercept([2, 2], [1, 2])
    assert Intercept([1, 2], [3, 5])(np.array([[2, 0]])).tolist() == [1.0]


X, Y, GROUPS = [1, 2, 3, 1, 2, 3, 5], [1, 2, 3, 3, 2, 2, 5], ["a", "a", "a", "b", "b", "b", "alone"]


def test_mean_of_groups() -> None:
    mean = MeanOfGroups(TauB, X, Y, GROUPS)
    b = TauB([1, 2, 3], [3, 2, 2])()
    assert mean.by_group() == {"a": 1.0, "b": b} and mean() == pytest.approx((1 + b) / 2)
    mean = MeanOfGroups(TauB, X, Y, GROUPS)
    sampled = mean(np.asarray([[1, 1, 1, 0, 0, 0, 4], [2, 1, 0, 1, 1, 1, 0]]))
    assert sampled[0] == pytest.approx(1.0)
    assert sampled[1] == pytest.approx((TauB([1, 1, 2], [1, 1, 2])() + TauB([1, 2, 3], [3, 2, 2])()) / 2)
    with pytest.raises(InputError, match="in none of the 2 groups"):
        MeanOfGroups(TauB, [1, 1, 2, 2], [1, 2, 3, 4], ["a", "a", "b", "b"])
