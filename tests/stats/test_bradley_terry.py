"""Bradley-Terry ratings: by hand, and as the solution of the likelihood's equations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capmeter.core.errors import InputError
from capmeter.stats.bradley_terry import ELO, bradley_terry, count_wins


def test_odds_of_two_systems_are_the_ratio_of_their_wins() -> None:
    """300 wins against 100: 400 · log10(3) = 190.85 points apart, around 1000."""
    strong, weak = bradley_terry([[0, 300], [100, 0]])
    assert strong - weak == pytest.approx(400 * np.log10(3), abs=0.1)
    assert strong + weak == pytest.approx(2000)


def test_a_system_that_won_every_battle_is_finite_and_best() -> None:
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


def test_ties_are_half_wins() -> None:
    first, second = np.array([0, 0, 1]), np.array([1, 1, 0])
    wins = count_wins(first, second, np.array([1, 0, 1]), np.array([1, 2, 3]), 2)
    assert wins.tolist() == [[0, 2], [4, 0]]  # 1 + 2/2 wins of 0; 2/2 + 3 wins of 1


def test_wrong_tables_are_refused() -> None:
    with pytest.raises(InputError, match="square table"):
        bradley_terry([[0, 1, 2], [1, 0, 2]])
    with pytest.raises(InputError, match="square table"):
        bradley_terry([[0, -1], [1, 0]])
