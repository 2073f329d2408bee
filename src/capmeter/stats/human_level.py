"""Inter-annotator agreement: the human level that metrics are compared with, measured in the same way.

* `against_others`: each rating of a caption against the mean of its other ratings (leave-one-out), all such points
  pooled. A metric acts as one more rater, so this is the level that it should reach.
* `every_two`: each rating against each other rating of the same caption, in both directions, so that the order of the
  raters does not matter.
* `majority_agreement`, `vote_agreement`: for pairs of captions, whether the majority vote agrees with a label, and how
  often one vote agrees with the majority of the others; a split vote counts one half.

Where a file lists the ratings of every caption in sorted order (`sorted_in_rows`), its columns are not raters: the
first column is always the smallest. A correlation of such columns (`columns_tau_b`) is too high, published or not.

>>> points = against_others([(1, 2, 4), (3, 3)])
>>> points.first.tolist(), points.second.tolist(), points.rows.tolist()
([1.0, 2.0, 4.0, 3.0, 3.0], [3.0, 2.5, 1.5, 3.0, 3.0], [0, 0, 0, 1, 1])
>>> majority_agreement([(1, 1, -1), (1, -1)], [1, -1]).tolist()
[1.0, 0.5]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

import numpy as np

from capmeter.core.errors import InputError
from capmeter.stats.kendall import Array, Numbers, TauB

Ratings = Sequence[Sequence[float]]


@dataclass(frozen=True, eq=False)
class RatingPoints:
    """Pairs of human ratings: `first[i]` and `second[i]` are ratings of the caption `rows[i]`."""

    first: Array
    second: Array
    rows: Array

    def __len__(self) -> int:
        return len(self.rows)


def against_others(ratings: Ratings) -> RatingPoints:
    """Each rating against the mean of its caption's other ratings; captions with a single rating give no point."""
    first: list[float] = []
    second: list[float] = []
    rows: list[int] = []
    for row, each in enumerate(ratings):
        total, others = sum(each), len(each) - 1
        if others > 0:
            first += each
            second += [(total - rating) / others for rating in each]
            rows += [row] * len(each)
    return _points(first, second, rows)


def every_two(ratings: Ratings) -> RatingPoints:
    """Each rating against each other rating of its caption, in both directions."""
    first, second, rows = [], [], []
    for row, each in enumerate(ratings):
        for a, b in permutations(each, 2):
            first.append(a)
            second.append(b)
            rows.append(row)
    return _points(first, second, rows)


def _points(first: list[float], second: list[float], rows: list[int]) -> RatingPoints:
    return RatingPoints(np.asarray(first, float), np.asarray(second, float), np.asarray(rows, np.int64))


def sorted_in_rows(ratings: Ratings) -> bool:
    """Whether all captions have equally many ratings, of more than two levels, and all rows are in ascending order."""
    if len({len(each) for each in ratings}) != 1 or len(ratings[0]) < 2:
        return False
    table = np.asarray(ratings, float)
    return len(np.unique(table)) > 2 and bool(
        (np.diff(table, axis=1) >= 0).all() and (np.diff(table, axis=1) > 0).any()
    )


def columns_tau_b(ratings: Ratings) -> tuple[float, ...]:
    """Kendall's τb of every pair of rating columns, as if each column were a rater: (1, 2), (1, 3) …, (2, 3) …"""
    table = np.asarray(ratings, float)
    if table.ndim != 2 or table.shape[1] < 2:
        raise InputError(
            f"expected the same number of ratings, two or more, of every caption, but got shape {table.shape}"
        )
    return tuple(float(TauB(table[:, a], table[:, b])()) for a, b in combinations(range(table.shape[1]), 2))


def majority_agreement(votes: Ratings, better: Numbers) -> Array:
    """For each pair, whether the majority of the votes (1 and -1) agrees with the label `better`: 1 or 0; split: .5."""
    sides = np.sign([sum(each) for each in votes])
    return _credit(sides, np.asarray(better, float))


def vote_agreement(votes: Ratings) -> Array:
    """For each pair, the share of votes that agree with the majority of the other votes (split: one half)."""
    shares = []
    for each in votes:
        total = sum(each)
        others = np.sign([total - vote for vote in each])
        shares.append(float(_credit(others, np.sign(np.asarray(each, float))).mean()))
    return np.asarray(shares)


def unanimous(votes: Ratings) -> Array:
    """For each pair, whether all its votes agree."""
    return np.asarray([len(set(each)) == 1 for each in votes])


def _credit(sides: Array, expected: Array) -> Array:
    return np.where(sides == 0, 0.5, (sides == expected).astype(float))
