"""Pairs: which of two scores is higher, how often a metric orders pairs as humans do, and how strong each system is.

* `sign_with_tolerance`: neural metrics give a sentence slightly different scores in different batches, and sums depend
  on their order, so scores that agree to six digits are a tie.
* `PairAccuracy`: pairs of captions of which one is known to be better (PASCAL-50S, FOIL). The treatment of equal scores
  can change the result by thirty points, so the tie policy is explicit: `half` a point, `strict` none, `random` a
  seeded coin flip, `first` as if the first had won.
* `TieCalibrated`: all pairs of rated captions (Deutsch et al. 2023, "Ties Matter"): a human tie counts as correct if
  the metric ties the pair too, and a metric ties what differs by at most ε; ε is chosen in the metric's favour:

    acc(ε) = (pairs in the same order and more than ε apart + human ties at most ε apart) / all pairs

* `TieMatched`: pairs that humans may have tied (CapArena, DOCENT). A metric ties as many pairs as humans do, those
  whose scores differ least, so that the share of ties cannot be chosen in its favour.

* `bradley_terry`: ratings of systems from who won against whom. The probability that system i wins against system j
  depends on their strengths alone,

    p(i beats j) = 1 / (1 + exp(r_j - r_i)),

  and the strengths are those under which the battles are most likely. A tie is half a win for both. Strengths have a
  normal prior of standard deviation 10, which keeps a system that won every battle finite and moves others by about a
  point. They are given on Elo's scale: 400 points are odds of 10 to 1, and the mean system has 1000 (R. A. Bradley,
  M. E. Terry. Rank analysis of incomplete block designs: I. Biometrika 39, 1952).

>>> sign_with_tolerance([0.3, 0.1 + 0.2, 0.5], [0.4, 0.3, 0.2]).tolist()
[-1, 0, 1]
>>> PairAccuracy([0.2, 0.5, 0.0], [1, 1, -1])()
0.8333333333333334
>>> TieCalibrated([1, 1, 2, 3], [0.30, 0.31, 0.5, 0.9]).best()
Calibrated(accuracy=1.0, epsilon=0.010000000000000009, pairs=6, sampled=False)
>>> TieMatched([0.4, 0.1, -0.3, 0.2], [1, 0, 1, 1])()
0.75
>>> bradley_terry([[0, 30, 5], [10, 0, 5], [5, 5, 0]]).round().tolist()
[1082.0, 918.0, 1000.0]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from capmeter.core.errors import InputError
from capmeter.stats.kendall import Array, Numbers, paired, resamples_of

_RELATIVE = 1e-6


def sign_with_tolerance(first: object, second: object) -> Array:
    """int8: 1 where the first score is higher, -1 where the second is, 0 where they tie; shapes broadcast."""
    first_scores, second_scores = np.asarray(first, float), np.asarray(second, float)
    if not (np.isfinite(first_scores).all() and np.isfinite(second_scores).all()):
        raise InputError("expected finite scores to compare, but some are not finite; leave those captions out")
    score_gap = first_scores - second_scores
    is_tied = np.abs(score_gap) <= _RELATIVE * np.maximum(np.abs(first_scores), np.abs(second_scores))
    return np.where(is_tied, 0, np.sign(score_gap)).astype(np.int8)


TIES = ("half", "strict", "random", "first")


class GroupMean:
    """The mean of values, or the mean of group means (PASCAL-50S: its four categories), for any weights."""

    symbol = "mean"

    def __init__(self, values: Numbers, groups: Sequence[Any] | None = None) -> None:
        self._values = np.asarray(values, float)
        group_names = [""] * len(self._values) if groups is None else list(groups)
        if len(group_names) != len(self._values) or not group_names:
            raise InputError(
                f"expected one group for each of {len(self._values)} values (at least one), but got {len(group_names)}"
            )
        self.groups = tuple(dict.fromkeys(group_names))
        self._member = np.stack(
            [np.asarray([group_name == group for group_name in group_names]) for group in self.groups], axis=1
        ).astype(float)

    def __len__(self) -> int:
        return len(self._values)

    def by_group(self, weights: Numbers | None = None) -> Array:
        """float64[resamples, groups]; NaN where no point of a group occurs in a resample."""
        weight_table = resamples_of(weights, len(self)).astype(float)
        counts = weight_table @ self._member
        sums = weight_table @ (self._member * self._values[:, None])
        means: Array = np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)
        return means

    def __call__(self, weights: Numbers | None = None) -> Any:
        """The value: a float for weights None or [n], float64[resamples] for [resamples, n]. A group that is absent
        from a resample is left out of the mean.
        """
        values = np.nanmean(self.by_group(weights), axis=1)
        return float(values[0]) if weights is None or np.ndim(weights) == 1 else values


class PairAccuracy(GroupMean):
    """The share of pairs in the human order.

    Args:
        gaps: score(a) - score(b) of each pair (pairs).
        better: 1 where humans prefer a, -1 where they prefer b (pairs).
        groups: the group of each pair, whose accuracies are averaged; None: one group.
        ties: how equal scores count: half, strict, random or first.
        seed: of the random tie policy.

    Raises:
        InputError: wrong shapes or values, an unknown tie policy.
    """

    symbol = "accuracy"

    def __init__(
        self, gaps: Numbers, better: Numbers, groups: Sequence[Any] | None = None, ties: str = "half", seed: int = 0
    ) -> None:
        gap_values, human_sides = np.asarray(gaps, float), np.asarray(better, float)
        if gap_values.ndim != 1 or gap_values.shape != human_sides.shape:
            raise InputError(
                f"expected two lists of equal length, but got shapes {gap_values.shape} and {human_sides.shape}"
            )
        if not np.isin(human_sides, (-1.0, 1.0)).all():
            raise InputError(
                "expected 1 (a is better) or -1 (b is better) for every pair; leave out pairs that humans tie"
            )
        if not np.isfinite(gap_values).all():
            raise InputError(
                f"{int((~np.isfinite(gap_values)).sum())} score differences are not finite; leave those pairs out"
            )
        if ties not in TIES:
            raise InputError(f"unknown tie policy {ties!r}; expected one of {', '.join(TIES)}")
        coin_flips = np.random.default_rng(seed).integers(2, size=len(human_sides)).astype(float)
        tie_credit = {
            "half": np.full(len(human_sides), 0.5),
            "strict": np.zeros(len(human_sides)),
            "random": coin_flips,
            "first": (human_sides > 0).astype(float),
        }[ties]
        self.tied = int((gap_values == 0).sum())
        super().__init__(np.where(gap_values == 0, tie_credit, np.sign(gap_values) == human_sides), groups)


class TieMatched(GroupMean):
    """The share of pairs that a metric judges as humans do, ties included (Cheng et al. 2025, CapArena).

    With t human ties, the metric prefers a caption where the scores differ by at least the (t + 1)-th smallest
    difference, and ties the pair otherwise; equal scores always tie. A resample has its own t and threshold.

    Args:
        gaps: score(a) - score(b) of each pair (pairs).
        better: positive where humans prefer a, negative where they prefer b, 0 where they tie (pairs).
        groups: the group of each pair, whose shares are averaged; None: one group.

    Raises:
        InputError: wrong shapes, or values that are not finite.
    """

    symbol = "agreement"

    def __init__(self, gaps: Numbers, better: Numbers, groups: Sequence[Any] | None = None) -> None:
        gap_values, human_sides = paired(gaps, better)
        super().__init__(gap_values, groups)
        self._human = np.sign(human_sides).astype(np.int8)
        self._sign = np.sign(gap_values).astype(np.int8)
        distance = np.abs(gap_values)
        self._order = np.argsort(distance, kind="stable")
        sorted_distances = distance[self._order]
        # the place of the last pair with the same difference: pairs that differ equally are all tied, or none is
        self._last = np.searchsorted(sorted_distances, sorted_distances, side="right") - 1

    def outcomes(self, weights: Numbers | None = None) -> Array:
        """int8[resamples, pairs]: 1 where the metric prefers a, -1 where it prefers b, 0 where it ties them."""
        weight_table = resamples_of(weights, len(self))
        human_ties = weight_table @ (self._human == 0)
        is_tied = np.cumsum(weight_table[:, self._order], axis=1)[:, self._last] <= human_ties[:, None]
        outcomes = np.empty(weight_table.shape, np.int8)
        outcomes[:, self._order] = np.where(is_tied, 0, self._sign[self._order])
        return outcomes

    def by_group(self, weights: Numbers | None = None) -> Array:
        """float64[resamples, groups]; NaN where no pair of a group occurs in a resample."""
        weight_table = resamples_of(weights, len(self)).astype(float)
        counts = weight_table @ self._member
        sums = (weight_table * (self.outcomes(weights) == self._human)) @ self._member
        means: Array = np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)
        return means


@dataclass(frozen=True)
class Calibrated:
    """The best accuracy, the ε that gives it, the number of pairs, and whether they are a sample of all pairs."""

    accuracy: float
    epsilon: float
    pairs: int
    sampled: bool


class TieCalibrated:
    """Tie-calibrated pair accuracy of human scores x and metric scores y for any weights.

    Pairs are formed within `groups` (captions of one image) if given. If there are more than `most` pairs, the value is
    estimated from a seeded sample of that many.
    """

    symbol = "accuracy-eq"

    def __init__(
        self, x: Numbers, y: Numbers, groups: Sequence[Any] | None = None, most: int = 1_000_000, seed: int = 0
    ) -> None:
        x_values, y_values = paired(x, y)
        first, second, self._sampled = _pairs(len(x_values), groups, most, seed)
        if len(first) == 0:
            raise InputError("no two points share a group, so there is no pair to compare")
        human_gaps, metric_gaps = x_values[first] - x_values[second], y_values[first] - y_values[second]
        order = np.argsort(np.abs(metric_gaps))
        self._first, self._second = first[order], second[order]
        human_gaps, metric_gaps = human_gaps[order], metric_gaps[order]
        self._distance = np.abs(metric_gaps)
        # a tied pair is gained where humans tie, and lost where metric and humans have the same order
        self._concordant = (np.sign(human_gaps) == np.sign(metric_gaps)) & (human_gaps != 0)
        self._gain = (human_gaps == 0).astype(np.int64) - self._concordant
        self._ends = np.flatnonzero(np.r_[self._distance[1:] != self._distance[:-1], True])
        self._n = len(x_values)

    def best(self, weights: Numbers | None = None) -> Calibrated:
        """The best accuracy and its ε, for one resample."""
        point_weights = resamples_of(weights, self._n)[0]
        pair_weights = point_weights[self._first] * point_weights[self._second]
        gained = np.cumsum(pair_weights * self._gain)[self._ends]
        distances = self._distance[self._ends]
        if distances[0] > 0:  # ε = 0 ties no pair
            gained, distances = np.r_[0, gained], np.r_[0.0, distances]
        best_index, total = int(np.argmax(gained)), int(pair_weights.sum())
        correct_weight = int((pair_weights * self._concordant).sum()) + int(gained[best_index])
        return Calibrated(
            correct_weight / total if total else 0.0, float(distances[best_index]), len(pair_weights), self._sampled
        )

    def __call__(self, weights: Numbers | None = None) -> Any:
        """The best accuracy: a float for weights None or [n], float64[resamples] for [resamples, n], each resample
        with its own ε.
        """
        if weights is None or np.ndim(weights) == 1:
            return self.best(weights).accuracy
        return np.asarray([self.best(point_weights).accuracy for point_weights in resamples_of(weights, self._n)])


def _pairs(n: int, groups: Sequence[Any] | None, most: int, seed: int) -> tuple[Array, Array, bool]:
    """Both sides of every pair i < j (within groups), or of a sample of `most` pairs."""
    if groups is None and n * (n - 1) // 2 > most:
        random = np.random.default_rng(seed)
        first, other = random.integers(n, size=most), random.integers(n - 1, size=most)
        return first, other + (other >= first), True
    if groups is None:
        first, second = np.triu_indices(n, 1)
        return first, second, False
    if len(groups) != n:
        raise InputError(f"expected one group for each of {n} points, but got {len(groups)}")
    members: dict[Any, list[int]] = {}
    for index, group in enumerate(groups):
        members.setdefault(group, []).append(index)
    corners = [(np.asarray(rows), np.triu_indices(len(rows), 1)) for rows in members.values() if len(rows) > 1]
    if not corners:
        return np.empty(0, int), np.empty(0, int), False
    first = np.concatenate([rows[upper[0]] for rows, upper in corners])
    second = np.concatenate([rows[upper[1]] for rows, upper in corners])
    if len(first) > most:
        sampled_pairs = np.random.default_rng(seed).choice(len(first), most, replace=False)
        return first[sampled_pairs], second[sampled_pairs], True
    return first, second, False


ELO = 400 / np.log(10)
"""Points of Elo's scale per unit of strength."""
MEAN = 1000.0
_PRECISION = 0.01  # of the prior


def count_wins(first: Array, second: Array, outcomes: Array, weights: Array, systems: int) -> Array:
    """How often each system won against each other one, a tie counting half for both.

    Args:
        first, second: the systems of each battle, as numbers from 0 (battles).
        outcomes: 1 where the first won, -1 where the second did, 0 for a tie (battles).
        weights: how often each battle occurs (battles).
        systems: their number.

    Returns:
        The wins of the row's system against the column's (systems, systems).
    """
    shares = weights * (1 + outcomes.astype(float)) / 2
    wins = np.bincount(first * systems + second, shares, systems**2)
    wins += np.bincount(second * systems + first, weights - shares, systems**2)
    return wins.reshape(systems, systems)


def bradley_terry(wins: Numbers, start: Array | None = None) -> Array:
    """The rating of each system on Elo's scale.

    Args:
        wins: of the row's system against the column's (systems, systems).
        start: ratings to start from, for speed.

    Raises:
        InputError: the table is not square, or a number of wins is negative or not finite.
    """
    from scipy.optimize import minimize

    table = np.asarray(wins, float)
    if table.ndim != 2 or table.shape[0] != table.shape[1] or not (np.isfinite(table) & (table >= 0)).all():
        raise InputError(f"expected a square table of numbers of wins, but got shape {table.shape}")
    battle_counts = table + table.T

    def loss(strengths: Array) -> tuple[float, Array]:
        strength_gaps = strengths[:, None] - strengths[None, :]
        penalised_loss = (table * np.logaddexp(0, -strength_gaps)).sum() + _PRECISION / 2 * (strengths**2).sum()
        expected_wins = (battle_counts / (1 + np.exp(-strength_gaps))).sum(axis=1)
        return float(penalised_loss), expected_wins - table.sum(axis=1) + _PRECISION * strengths

    initial_strengths = np.zeros(len(table)) if start is None else (start - MEAN) / ELO
    strengths = minimize(loss, initial_strengths, jac=True, method="L-BFGS-B", options={"ftol": 1e-12, "gtol": 1e-8}).x
    ratings: Array = MEAN + ELO * (strengths - strengths.mean())
    return ratings
