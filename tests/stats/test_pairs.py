"""Ties by rounding, accuracy on pairs, ratings of systems."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capmeter.core.errors import InputError
from capmeter.stats.pairs import (
    ELO,
    GroupMean,
    PairAccuracy,
    TieCalibrated,
    TieMatched,
    bradley_terry,
    count_wins,
    sign_with_tolerance,
)

NUMBERS = st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), min_size=1, max_size=10)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (1.0, 1.0, 0),
        (1.0, 1.0 + 1e-7, 0),
        (1.0, 1.0 + 1e-5, -1),
        (2e-9, 1e-9, 1),  # tiny scores (unsmoothed BLEU) still differ
        (0.0, 1e-300, -1),
        (0.0, 0.0, 0),
        (-1.0, -1.0 - 1e-8, 0),
        (-1.0, 1.0, -1),
    ],
)
def test_by_hand(first: float, second: float, expected: int) -> None:
    assert sign_with_tolerance([first], [second]).tolist() == [expected]


@given(NUMBERS)
def test_it_is_antisymmetric(pairs: list[tuple[float, float]]) -> None:
    a, b = np.array(pairs).T
    assert (sign_with_tolerance(a, b) == -sign_with_tolerance(b, a)).all()
    assert (sign_with_tolerance(a, a) == 0).all()


def test_columns_broadcast_and_hold_numbers() -> None:
    assert sign_with_tolerance([[1.0], [2.0]], [[1.0, 2.0], [1.0, 2.0]]).tolist() == [[0, -1], [1, 0]]
    with pytest.raises(InputError, match="finite scores"):
        sign_with_tolerance([np.nan], [1.0])


def test_tie_policies() -> None:
    gaps, better = [1.0, -2.0, 0.0, 0.0], [1, 1, 1, -1]
    assert PairAccuracy(gaps, better, ties="half")() == 2 / 4
    assert PairAccuracy(gaps, better, ties="strict")() == 1 / 4
    assert PairAccuracy(gaps, better, ties="first")() == 2 / 4
    many = PairAccuracy(np.zeros(20_000), np.ones(20_000), ties="random", seed=3)
    assert many() == pytest.approx(0.5, abs=0.015) and many.tied == 20_000
    assert many() == PairAccuracy(np.zeros(20_000), np.ones(20_000), ties="random", seed=3)()
    with pytest.raises(InputError, match="half, strict, random, first"):
        PairAccuracy(gaps, better, ties=">=")
    with pytest.raises(InputError, match="pairs that humans tie"):
        PairAccuracy([1.0], [0])


def test_mean_of_groups_not_of_pairs() -> None:
    accuracy = PairAccuracy([1, 1, 1, -1], [1, 1, 1, 1], groups=["HI", "HI", "HI", "HC"])
    assert accuracy() == 0.5 and accuracy.groups == ("HI", "HC")
    assert accuracy.by_group().tolist() == [[1.0, 0.0]]
    assert accuracy([1, 1, 0, 0]) == 1.0  # no HC pair drawn
    mean = GroupMean([1.0, 2.0, 4.0], groups=["a", "a", "b"])
    assert mean(np.asarray([[1, 1, 1], [0, 2, 1]])).tolist() == [(1.5 + 4) / 2, (2 + 4) / 2]


@given(st.integers(0, 10_000), st.booleans())
@settings(max_examples=100)
def test_calibration_equals_trying_every_epsilon(seed: int, grouped: bool) -> None:
    random = np.random.default_rng(seed)
    human, metric = random.integers(3, size=14), random.integers(12, size=14)
    groups = random.integers(3, size=14).tolist() if grouped else None
    pairs = [(i, j) for i in range(14) for j in range(i) if groups is None or groups[i] == groups[j]]
    if not pairs:
        return

    def accuracy(epsilon: float) -> float:
        right = 0
        for i, j in pairs:
            h, m = human[i] - human[j], metric[i] - metric[j]
            m = 0 if abs(m) <= epsilon else m
            right += np.sign(h) == np.sign(m)
        return right / len(pairs)

    best = TieCalibrated(human, metric, groups).best()
    present = {0} | {abs(int(metric[i] - metric[j])) for i, j in pairs}
    assert best.accuracy == pytest.approx(max(accuracy(epsilon) for epsilon in present))
    assert accuracy(best.epsilon) == pytest.approx(best.accuracy)


def test_sampled_pairs_come_near_all() -> None:
    random = np.random.default_rng(5)
    human = random.integers(4, size=900)
    metric = human + random.normal(size=900)
    complete, sample = TieCalibrated(human, metric).best(), TieCalibrated(human, metric, most=50_000).best()
    assert not complete.sampled and sample.sampled and sample.pairs == 50_000
    assert sample.accuracy == pytest.approx(complete.accuracy, abs=0.015)


def test_a_metric_ties_as_many_pairs_as_people() -> None:
    """People tie two of five; the metric ties the smallest differences, .1 and .2: right are .9, -.5 and .1."""
    gaps, better = [0.9, -0.5, 0.1, 0.2, 0.4], [1, -2, 0, 1, 0]
    matched = TieMatched(gaps, better)
    assert matched.outcomes()[0].tolist() == [1, -1, 0, 0, 1]
    assert matched() == 3 / 5


def test_equal_differences_are_all_ties_or_none_and_equal_scores_always() -> None:
    assert TieMatched([0.2, -0.2, 0.5], [0, 1, 1]).outcomes()[0].tolist() == [1, -1, 1]
    assert TieMatched([0.2, -0.2, 0.5], [0, 0, 1]).outcomes()[0].tolist() == [0, 0, 1]
    assert TieMatched([0.0, 0.0, 0.5], [1, 1, 1]).outcomes()[0].tolist() == [0, 0, 1]


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-1, 1), st.integers(0, 2)), min_size=2, max_size=12))
def test_a_resample_is_its_pairs_repeated(pairs: list[tuple[int, int, int]]) -> None:
    gaps, better, weights = (np.array(column) for column in zip(*pairs, strict=True))
    if weights.sum() < 2:
        return
    repeated = TieMatched(np.repeat(gaps, weights), np.repeat(better, weights))
    assert TieMatched(gaps, better)(weights) == pytest.approx(repeated())


def test_agreement_by_group_and_odds_of_systems() -> None:
    matched = TieMatched([1, -1, 2, 3], [1, 1, 1, 1], ["x", "x", "y", "y"])
    assert matched.by_group().tolist() == [[0.5, 1.0]] and matched() == 0.75
    # 300 wins against 100: 400 · log10(3) = 190.85 points apart, around 1000.
    strong, weak = bradley_terry([[0, 300], [100, 0]])
    assert strong - weak == pytest.approx(400 * np.log10(3), abs=0.1)
    assert strong + weak == pytest.approx(2000)
    ratings = bradley_terry([[0, 10, 10], [0, 0, 5], [0, 5, 0]])
    assert np.isfinite(ratings).all() and ratings[0] > ratings[1] == pytest.approx(ratings[2])


@given(st.lists(st.integers(1, 30), min_size=12, max_size=12))
def test_expected_wins_are_the_wins(numbers: list[int]) -> None:
    """At the maximum of the likelihood every system's expected number of wins is its number of wins (but the prior)."""
    wins = np.zeros((4, 4))
    wins[~np.eye(4, dtype=bool)] = numbers
    strengths = (bradley_terry(wins) - 1000) / ELO
    expected = ((wins + wins.T) / (1 + np.exp(strengths[None, :] - strengths[:, None]))).sum(axis=1)
    np.testing.assert_allclose(expected, wins.sum(axis=1) - 0.01 * strengths, atol=1e-3)


def test_ties_are_half_wins_and_wrong_tables_are_refused() -> None:
    first, second = np.array([0, 0, 1]), np.array([1, 1, 0])
    wins = count_wins(first, second, np.array([1, 0, 1]), np.array([1, 2, 3]), 2)
    assert wins.tolist() == [[0, 2], [4, 0]]  # 1 + 2/2 wins of 0; 2/2 + 3 wins of 1
    with pytest.raises(InputError, match="square table"):
        bradley_terry([[0, 1, 2], [1, 0, 2]])
    with pytest.raises(InputError, match="square table"):
        bradley_terry([[0, -1], [1, 0]])
