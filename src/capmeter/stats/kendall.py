"""Kendall's τ: do two variables put pairs of points in the same order? Each variant states how it treats ties.

Of all pairs of points, C are concordant (both variables order them the same way), D discordant, and the rest are tied
in x, in y, or both:

    τa = (C - D) / (n (n - 1) / 2)
    τb = (C - D) / sqrt((pairs not tied in x) · (pairs not tied in y))
    τc = 2 (C - D) / (n² (m - 1) / m),   m = the smaller number of distinct values

τb and τc can differ by .20 where a variable has few levels, so a τ without its letter says little.

A variant is called with weights: how often each point occurs (the counts of a bootstrap resample). The value is that
of the points repeated as often, so that a thousand resamples need only one ordering. Weights of shape [resamples, n]
give float64[resamples].

D is counted bit by bit (a wavelet tree): with the points ordered by x, level l holds them ordered stably by the upper
l bits of y's rank, and the pairs that first differ in bit l, in the wrong order, are ones that precede zeros of the
same block. That is O(n log k) additions for k distinct values of y, with no sorting per resample; human ratings with
four levels take two passes.

>>> TauB([1, 2, 3, 4], [1, 3, 2, 4])()
0.6666666666666666
>>> TauA([1, 2, 3], [1, 2, 3])([1, 0, 2])
0.6666666666666666
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.core.errors import InputError

Array = npt.NDArray[Any]
Numbers = npt.ArrayLike


@dataclass(frozen=True)
class PairCounts:
    """Counts of the kinds of pairs of (weighted) points; every field is an int64 array over the resamples."""

    points: Array
    total: Array
    concordant: Array
    discordant: Array
    tied_x: Array  # in x, whether or not in y
    tied_y: Array
    tied_both: Array
    levels: Array  # the smaller number of distinct values, among points that occur


class _Level:
    """One bit of the rank: the order of the points, which are zeros and which are ones, and where each zero's block of
    equal upper bits starts.
    """

    def __init__(self, order: Array, ones: Array, block: Array) -> None:
        self.order = order
        self.zeros = np.flatnonzero(~ones)
        self.one = ones.view(np.int8)
        self.block_of_zeros = block[self.zeros]

    def inversions(self, weights: Array) -> Array:
        """The number of pairs of a one before a zero in the same block, for each row of weights."""
        weights = weights[:, self.order]
        ones_weight = np.zeros(
            (len(weights), weights.shape[1] + 1), np.int64
        )  # the weight of the ones before each position
        np.cumsum(weights * self.one, axis=1, out=ones_weight[:, 1:])
        weight_before = ones_weight[:, self.zeros] - ones_weight[:, self.block_of_zeros]
        inversions: Array = np.einsum("dn,dn->d", weights[:, self.zeros], weight_before)
        return inversions


class Tau:
    """Two variables, prepared for counting their pairs with any weights; a call gives the value of the variant."""

    symbol = "tau"

    def __init__(self, x: Numbers, y: Numbers) -> None:
        x_ranks, y_ranks = (np.unique(values, return_inverse=True)[1].astype(np.int64) for values in paired(x, y))
        x_levels, y_levels = int(x_ranks.max()) + 1, int(y_ranks.max()) + 1
        # the variable with fewer levels is the one processed bit by bit; τ is symmetric
        is_swapped = self._swapped = y_levels > x_levels
        fine, coarse, levels = (y_ranks, x_ranks, x_levels) if is_swapped else (x_ranks, y_ranks, y_levels)
        both = fine * levels + coarse  # within a tie of `fine`, `coarse` ascends: no false inversions
        self._order = np.argsort(both)
        both, fine, self._coarse = both[self._order], fine[self._order], coarse[self._order]
        self._coarse_levels = levels
        self._fine_starts, self._both_starts = _starts(fine), _starts(both)
        self._levels = _levels(self._coarse, levels)

    def __len__(self) -> int:
        return len(self._order)

    def pairs(self, weights: Numbers | None = None) -> PairCounts:
        """The counts, int64 arrays of shape [resamples] (one resample with weights 1 if `weights` is None)."""
        weight_table = resamples_of(weights, len(self))[:, self._order]
        points = weight_table.sum(axis=1)
        total_pairs = _choose_two(points)
        discordant = np.zeros(len(weight_table), np.int64)
        for level in self._levels:
            discordant += level.inversions(weight_table)
        fine = np.add.reduceat(weight_table, self._fine_starts, axis=1)
        both = np.add.reduceat(weight_table, self._both_starts, axis=1)
        coarse = np.stack([np.bincount(self._coarse, row, self._coarse_levels) for row in weight_table]).astype(
            np.int64
        )
        tied_fine, tied_coarse, tied_both = (_choose_two(counts).sum(axis=1) for counts in (fine, coarse, both))
        concordant = total_pairs - discordant - tied_fine - tied_coarse + tied_both
        levels = np.minimum((fine > 0).sum(axis=1), (coarse > 0).sum(axis=1))
        tied_x, tied_y = (tied_coarse, tied_fine) if self._swapped else (tied_fine, tied_coarse)
        return PairCounts(points, total_pairs, concordant, discordant, tied_x, tied_y, tied_both, levels)

    def __call__(self, weights: Numbers | None = None) -> Any:
        """The value: a float for weights None or [n], float64[resamples] for [resamples, n]. If undefined (nothing
        varies): `InputError` for one value, 0 in a resample.
        """
        pairs = self.pairs(weights)
        numerator, denominator = self.fraction(pairs)
        is_defined = denominator > 0
        if weights is None or np.ndim(weights) == 1:
            if not is_defined[0]:
                raise InputError(
                    f"{self.symbol} needs at least two distinct values in each variable; one of them is constant"
                )
            return float(numerator[0] / denominator[0])
        return np.divide(numerator, denominator, out=np.zeros(len(numerator)), where=is_defined)

    def fraction(self, pairs: PairCounts) -> tuple[Array, Array]:
        """Numerator and denominator of the variant, for each resample."""
        raise TypeError("Tau only counts pairs; use TauA, TauB or TauC")


class TauA(Tau):
    """τa of two variables for any weights."""

    symbol = "tau-a"

    def fraction(self, pairs: PairCounts) -> tuple[Array, Array]:
        """C - D, and all pairs."""
        return (pairs.concordant - pairs.discordant).astype(float), pairs.total.astype(float)


class TauB(Tau):
    """τb of two variables for any weights."""

    symbol = "tau-b"

    def fraction(self, pairs: PairCounts) -> tuple[Array, Array]:
        """C - D, and the geometric mean of the pairs untied in x and the pairs untied in y."""
        untied = np.sqrt((pairs.total - pairs.tied_x).astype(float) * (pairs.total - pairs.tied_y).astype(float))
        return (pairs.concordant - pairs.discordant).astype(float), untied


class TauC(Tau):
    """τc of two variables for any weights."""

    symbol = "tau-c"

    def fraction(self, pairs: PairCounts) -> tuple[Array, Array]:
        """2 (C - D), and n² (m - 1) / m."""
        levels = np.maximum(pairs.levels, 1).astype(float)
        reachable = pairs.points.astype(float) ** 2 * (levels - 1) / levels
        return 2.0 * (pairs.concordant - pairs.discordant), reachable


def paired(x: Numbers, y: Numbers) -> tuple[Array, Array]:
    """Both variables as float64[n], checked: one-dimensional, of equal length, at least two points, all finite."""
    x_values, y_values = np.asarray(x, float), np.asarray(y, float)
    if x_values.ndim != 1 or x_values.shape != y_values.shape:
        raise InputError(f"expected two lists of equal length, but got shapes {x_values.shape} and {y_values.shape}")
    if len(x_values) < 2:
        raise InputError(f"a correlation needs at least two points, but got {len(x_values)}")
    for side, values in (("first", x_values), ("second", y_values)):
        bad = np.flatnonzero(~np.isfinite(values))
        if len(bad):
            raise InputError(
                f"{len(bad)} values of the {side} variable are not finite, the first at index {bad[0]}; leave them out"
            )
    return x_values, y_values


def resamples_of(weights: Numbers | None, n: int) -> Array:
    """Weights as int64[resamples, n]; None means one resample in which every point occurs once."""
    if weights is None:
        return np.ones((1, n), np.int64)
    table = np.atleast_2d(np.asarray(weights))
    if table.ndim != 2 or table.shape[1] != n or not (np.issubdtype(table.dtype, np.integer) or table.dtype == bool):
        raise InputError(
            f"expected integer weights of shape [resamples, {n}], but got {table.dtype} of shape {table.shape}"
        )
    return table.astype(np.int64, copy=False)


def _choose_two(counts: Array) -> Array:
    pair_counts: Array = counts * (counts - 1) // 2
    return pair_counts


def _starts(sorted_values: Array) -> Array:
    """Where each run of equal values starts."""
    return np.flatnonzero(np.r_[True, sorted_values[1:] != sorted_values[:-1]])


def _levels(ranks: Array, distinct: int) -> list[_Level]:
    """The levels of the wavelet tree over `ranks` (in the order of the other variable), most significant bit first."""
    levels = []
    position = np.arange(len(ranks), dtype=np.int32)
    order, level_ranks = position, ranks.astype(np.int32)
    # the position of each rank once all are sorted
    first_of = np.r_[0, np.cumsum(np.bincount(ranks, minlength=distinct))].astype(np.int32)
    for bit in range(max(distinct - 1, 0).bit_length() - 1, -1, -1):
        ones = (level_ranks >> bit & 1).astype(bool)
        block_starts = first_of[level_ranks >> (bit + 1) << (bit + 1)]
        levels.append(_Level(order, ones, block_starts))
        ones_so_far = np.cumsum(ones, dtype=np.int32) - ones
        ones_before = ones_so_far - ones_so_far[block_starts]
        # within each block, zeros move before ones, and otherwise keep their order
        target_positions = first_of[level_ranks >> bit << bit] + np.where(
            ones, ones_before, position - block_starts - ones_before
        )
        next_order, next_ranks = np.empty_like(order), np.empty_like(level_ranks)
        next_order[target_positions], next_ranks[target_positions] = order, level_ranks
        order, level_ranks = next_order, next_ranks
    return levels
