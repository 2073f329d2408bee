"""People against people: the points by hand, sorted ratings, votes, and what independent raters give."""

from __future__ import annotations

import numpy as np
import pytest

from capmeter.stats.human_level import (
    against_others,
    every_two,
    majority_agreement,
    unanimous,
    vote_agreement,
)
from capmeter.stats.kendall import tau_b


def test_each_rating_against_the_mean_of_the_others() -> None:
    points = against_others([(1, 3), (4,), (1, 2, 6)])
    assert points.first.tolist() == [1, 3, 1, 2, 6]
    assert points.second.tolist() == [3, 1, 4, 3.5, 1.5]
    assert points.rows.tolist() == [0, 0, 2, 2, 2] and len(points) == 5


def test_every_two_ratings_both_ways_round() -> None:
    points = every_two([(1, 3), (4,), (1, 2, 6)])
    assert sorted(zip(points.first, points.second, points.rows, strict=True)) == sorted(
        [(1, 3, 0), (3, 1, 0), (1, 2, 2), (2, 1, 2), (1, 6, 2), (6, 1, 2), (2, 6, 2), (6, 2, 2)]
    )


def test_the_order_of_raters_does_not_matter() -> None:
    """Raters that agree in nothing do not seem to agree when their ratings are sorted inside each row."""
    random = np.random.default_rng(0)
    ratings = random.integers(1, 5, size=(3000, 3))
    tidy = np.sort(ratings, axis=1)
    for table in (ratings, tidy):
        two = every_two(table.tolist())
        assert abs(tau_b(two.first, two.second)) < 0.03
        one = against_others(table.tolist())
        assert abs(tau_b(one.first, one.second)) < 0.03


def test_votes() -> None:
    votes = [(1, 1, -1), (1, -1), (-1, -1, -1), (1, 1, 1, -1)]
    assert majority_agreement(votes, [1, 1, 1, 1]).tolist() == [1, 0.5, 0, 1]
    # 1 1 -1: each 1 sees a split rest, the -1 sees a majority against it; 1 -1: each sees the other alone
    assert vote_agreement(votes).tolist() == pytest.approx([1 / 3, 0, 1, 0.75])
    assert unanimous(votes).tolist() == [False, False, True, False]
