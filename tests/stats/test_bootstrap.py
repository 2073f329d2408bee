"""The cluster bootstrap: whole clusters, same seed same resamples, intervals that hold the truth."""

from __future__ import annotations

from math import asin, pi
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capmeter.core.errors import InputError
from capmeter.stats.bootstrap import (
    Clusters,
    bootstrap_interval,
    mean_statistic,
    paired_difference,
    percentile_interval,
    resample_blocks,
)
from capmeter.stats.kendall import TauB


def test_whole_clusters_are_drawn_by_seed() -> None:
    clusters = ["x", "y", "x", "z", "y"]
    for weights in next(resample_blocks(3, 50, seed=1))[:, Clusters(clusters).codes]:
        assert weights[0] == weights[2] and weights[1] == weights[4]
        assert weights[0] + weights[1] + weights[3] == 3  # as many clusters as there are
    complete, (few,), (others,) = (list(resample_blocks(30, n, seed)) for n, seed in ((20, 4), (5, 4), (20, 5)))
    assert (complete[0][:5] == few).all() and (complete[0] != others).any()


# Python gives -1 and -2 the same hash
@given(labels=st.lists(st.sampled_from([-1, -2, 0, 2**61 - 1, "a", "b", "", ("a", 1), 1.0, 1]), min_size=1))
def test_clusters_are_numbered_in_the_order_of_their_first_point(labels: list[object]) -> None:
    order = list(dict.fromkeys(labels))
    clusters = Clusters(labels)
    assert clusters.codes.tolist() == [order.index(label) for label in labels] and len(clusters) == len(order)


def test_sums_of_clusters() -> None:
    clusters = Clusters(["b", "a", "b"])
    assert clusters.sums(np.asarray([1.0, 2.0, 4.0])).tolist() == [5.0, 2.0]
    assert clusters.sums(np.asarray([[1.0, 0.5], [2.0, 0.5], [4.0, 0.5]])).tolist() == [[5.0, 1.0], [2.0, 0.5]]
    with pytest.raises(InputError, match="expected 3 rows"):
        clusters.sums(np.ones(4))


def test_interval_of_a_mean_has_the_known_width() -> None:
    values = np.random.default_rng(0).normal(size=2000)
    result = bootstrap_interval(mean_statistic(values), np.arange(2000), resamples=2000, seed=0)
    assert result.value == pytest.approx(values.mean())
    assert result.high - result.low == pytest.approx(2 * 1.96 * values.std() / 2000**0.5, rel=0.08)


def test_dependent_points_widen_the_interval() -> None:
    random = np.random.default_rng(3)
    values = np.repeat(random.normal(size=200), 9)  # nine copies of one judgment say no more than one
    images = np.repeat(np.arange(200), 9)
    by_image, alone = (
        bootstrap_interval(mean_statistic(values), images),
        bootstrap_interval(mean_statistic(values), np.arange(1800)),
    )
    assert (by_image.high - by_image.low) / (alone.high - alone.low) == pytest.approx(3, rel=0.15)


def test_difference_is_paired() -> None:
    random = np.random.default_rng(2)
    base = random.normal(size=500)
    better, worse = mean_statistic(base + 0.05), mean_statistic(base)
    first, second = (bootstrap_interval(which, np.arange(500), seed=7) for which in (better, worse))
    result, p = paired_difference(first, second)
    assert (
        result.value == pytest.approx(0.05) and result.low == pytest.approx(0.05) and result.high == pytest.approx(0.05)
    )
    assert p == pytest.approx(2 / 1001)
    assert paired_difference(first, first)[1] == 1.0
    with pytest.raises(InputError, match="same resamples"):
        paired_difference(first, bootstrap_interval(worse, np.arange(500), resamples=10))


def covered(
    statistic: type, runs: int, images: int = 100, per_image: int = 3, rho: float = 0.5, resamples: int = 200
) -> float:
    """The share of runs whose 95 % interval holds the true τ = 2 asin(ρ) / π of normal scores that share an image's
    luck.
    """
    truth, content = 2 / pi * asin(rho), 0
    mix = np.linalg.cholesky(np.asarray([[1, rho], [rho, 1]]))
    clusters = Clusters(np.repeat(np.arange(images), per_image))
    for run in range(runs):
        random = np.random.default_rng(run)
        luck = np.repeat(random.normal(size=(images, 2)) @ mix.T, per_image, axis=0)
        points = luck + random.normal(size=(images * per_image, 2)) @ mix.T
        result = bootstrap_interval(statistic(*points.T), clusters, resamples=resamples, seed=run)
        content += result.low <= truth <= result.high
    return content / runs


def test_intervals_hold_the_truth() -> None:
    """A small run of benchmarks/statistics_coverage.py: 95 % ± 2.6 standard errors of a share of 80 runs."""
    assert 0.887 <= covered(TauB, runs=80, images=60, resamples=100) <= 1


def test_bootstrap_is_the_statistic_of_each_draw() -> None:
    random = np.random.default_rng(9)
    x, y, images = random.integers(4, size=60), random.normal(size=60), random.integers(12, size=60)
    clusters = Clusters(images)
    sampled = bootstrap_interval(TauB(x, y), clusters, resamples=7, seed=3).resamples
    for value, weights in zip(sampled, next(resample_blocks(len(clusters), 7, 3))[:, clusters.codes], strict=True):
        assert value == pytest.approx(TauB(np.repeat(x, weights), np.repeat(y, weights))(), abs=1e-12)


@pytest.mark.parametrize("level", [0, 1, 95, -1, float("nan"), "x", None, 10**400])
def test_levels_are_numbers_between_0_and_1(level: Any) -> None:
    with pytest.raises(InputError, match="expected a level between 0 and 1"):
        percentile_interval(np.array([1.0, 2.0]), level)
    with pytest.raises(InputError, match="between 0 and 1"):
        bootstrap_interval(mean_statistic(np.arange(5)), np.arange(5), level=level)


@pytest.mark.parametrize("resamples", [np.zeros(0), np.zeros((2, 2))])
def test_an_interval_needs_a_row_of_resamples(resamples: Any) -> None:
    with pytest.raises(InputError, match="expected one value for each resample"):
        percentile_interval(resamples)


def test_values_too_large_to_be_summed_are_refused() -> None:
    with pytest.raises(InputError, match="not a finite number; scale the values"):
        bootstrap_interval(mean_statistic(np.array([1.7e308, 1.7e308, 0.0])), range(3), 7)
    with pytest.raises(InputError, match="not a finite number; scale the values"):
        percentile_interval(np.array([-1.7e308, 1.7e308]))
