"""Inter-annotator agreement: the human level that metrics are compared with, measured in the same way.

* `against_others`: each rating of a caption against the mean of its other ratings (leave-one-out), all such points
  pooled. A metric acts as one more rater, so this is the level that it should reach.
* `every_two`: each rating against each other rating of the same caption, in both directions, so that the order of the
  raters does not matter.
* `majority_agreement`, `vote_agreement`: for pairs of captions, whether the majority vote agrees with a label, and how
  often one vote agrees with the majority of the others; a split vote counts one half.

>>> points = against_others([(1, 2, 4), (3, 3)])
>>> points.first.tolist(), points.second.tolist(), points.rows.tolist()
([1.0, 2.0, 4.0, 3.0, 3.0], [3.0, 2.5, 1.5, 3.0, 3.0], [0, 0, 0, 1, 1])
>>> majority_agreement([(1, 1, -1), (1, -1)], [1, -1]).tolist()
[1.0, 0.5]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from capmeter.stats.kendall import Array, Numbers

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
    for caption_index, caption_ratings in enumerate(ratings):
        rating_sum, other_count = sum(caption_ratings), len(caption_ratings) - 1
        if other_count > 0:
            first += caption_ratings
            second += [(rating_sum - rating) / other_count for rating in caption_ratings]
            rows += [caption_index] * len(caption_ratings)
    return _points(first, second, rows)


def every_two(ratings: Ratings) -> RatingPoints:
    """Each rating against each other rating of its caption, in both directions."""
    first, second, rows = [], [], []
    for caption_index, caption_ratings in enumerate(ratings):
        for first_rating, second_rating in permutations(caption_ratings, 2):
            first.append(first_rating)
            second.append(second_rating)
            rows.append(caption_index)
    return _points(first, second, rows)


def _points(first: list[float], second: list[float], rows: list[int]) -> RatingPoints:
    return RatingPoints(np.asarray(first, float), np.asarray(second, float), np.asarray(rows, np.int64))


def majority_agreement(votes: Ratings, better: Numbers) -> Array:
    """For each pair, whether the majority of the votes (1 and -1) agrees with the label `better`: 1 or 0; split: .5."""
    majority_sides = np.sign([sum(pair_votes) for pair_votes in votes])
    return _credit(majority_sides, np.asarray(better, float))


def vote_agreement(votes: Ratings) -> Array:
    """For each pair, the share of votes that agree with the majority of the other votes (split: one half)."""
    shares = []
    for pair_votes in votes:
        vote_sum = sum(pair_votes)
        other_majorities = np.sign([vote_sum - vote for vote in pair_votes])
        shares.append(float(_credit(other_majorities, np.sign(np.asarray(pair_votes, float))).mean()))
    return np.asarray(shares)


def unanimous(votes: Ratings) -> Array:
    """For each pair, whether all its votes agree."""
    return np.asarray([len(set(pair_votes)) == 1 for pair_votes in votes])


def _credit(sides: Array, expected: Array) -> Array:
    return np.where(sides == 0, 0.5, (sides == expected).astype(float))
