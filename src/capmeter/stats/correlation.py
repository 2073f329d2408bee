"""Pearson's and Spearman's correlation, with weights that say how often each point occurs.

    r = Σ (x - x̄)(y - ȳ) / sqrt(Σ (x - x̄)² Σ (y - ȳ)²)

Spearman's ρ is Pearson's r of the ranks, where tied points get the mean of their ranks. As everywhere in `stats`,
integer `weights` [resamples, n] give the values of as many resamples at once.

A partial correlation of x and y given z is what is left of their correlation when z is held constant:

    r(x, y | z) = (r(x, y) - r(x, z) r(y, z)) / sqrt((1 - r(x, z)²) (1 - r(y, z)²))

with Pearson's r, Spearman's ρ or Kendall's τ (M. G. Kendall, Partial rank correlation, Biometrika 32, 1942).

>>> round(Pearson([1, 2, 3], [1, 2, 4])(), 6)
0.981981
>>> Spearman([1, 2, 3], [1, 2, 4])()
1.0
>>> x, y, z = [1, 2, 3, 4], [2, 1, 4, 3], [1, 2, 2, 1]
>>> PartialCorrelation(Pearson(x, y), Pearson(x, z), Pearson(y, z))()
0.6

`Intercept` is the value at 0 of a regression line, and `MeanOfGroups` the mean of any of these over groups (language
pairs, the captions of one image).

>>> Intercept([-1, 0, 1, 2], [1, 3, 5, 7])()
3.0
>>> MeanOfGroups(Spearman, [1, 2, 3, 1, 2, 3], [1, 2, 3, 3, 2, 1], ["a", "a", "a", "b", "b", "b"]).by_group()
{'a': 1.0, 'b': -1.0}
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from capmeter.core.errors import InputError
from capmeter.stats.kendall import Array, Numbers, paired, resamples_of


class Pearson:
    """Pearson's r of two variables for any weights."""

    symbol = "pearson"

    def __init__(self, x: Numbers, y: Numbers) -> None:
        x_values, y_values = paired(x, y)
        # r is invariant to shift and scale: both variables are standardised so that the sums lose no digits
        self._x, self._y = _standard(x_values), _standard(y_values)
        self._moments = np.stack([self._x, self._y, self._x**2, self._y**2, self._x * self._y], axis=1)

    def __len__(self) -> int:
        return len(self._x)

    def __call__(self, weights: Numbers | None = None) -> Any:
        """The value: a float for weights None or [n], float64[resamples] for [resamples, n]. If
        undefined: `InputError` for one value, 0 in a resample.
        """
        weight_table = resamples_of(weights, len(self))
        moments = weight_table.astype(float) @ self._moments
        return _ratio(np.c_[weight_table.sum(axis=1), moments], weights, self.symbol)


class Spearman:
    """Spearman's ρ of two variables for any weights."""

    symbol = "spearman"

    def __init__(self, x: Numbers, y: Numbers) -> None:
        x_values, y_values = paired(x, y)
        self._x_levels, self._x_rank = np.unique(x_values, return_inverse=True)
        self._y_levels, self._y_rank = np.unique(y_values, return_inverse=True)

    def __len__(self) -> int:
        return len(self._x_rank)

    def __call__(self, weights: Numbers | None = None) -> Any:
        """The value: a float for weights None or [n], float64[resamples] for [resamples, n]. If
        undefined: `InputError` for one value, 0 in a resample.
        """
        weight_table = resamples_of(weights, len(self)).astype(float)
        sums = np.empty((len(weight_table), 6))
        for row, weight in zip(sums, weight_table, strict=True):
            x = _mean_ranks(weight, self._x_rank, len(self._x_levels))
            y = _mean_ranks(weight, self._y_rank, len(self._y_levels))
            row[:] = weight.sum(), weight @ x, weight @ y, weight @ (x * x), weight @ (y * y), weight @ (x * y)
        return _ratio(sums, weights, self.symbol)


class PartialCorrelation:
    """The correlation of x and y given z, from the three correlations of two of them, for any weights."""

    symbol = "partial correlation"

    def __init__(self, xy: Callable[[Any], Any], xz: Callable[[Any], Any], yz: Callable[[Any], Any]) -> None:
        self._correlations = (xy, xz, yz)

    def __call__(self, weights: Numbers | None = None) -> Any:
        """The value: a float for weights None or [n], float64[resamples] for [resamples, n]. If undefined, because z
        determines x or y: `InputError` for one value, 0 in a resample.
        """
        xy, xz, yz = (np.atleast_1d(correlation(weights)).astype(float) for correlation in self._correlations)
        left = (1 - xz**2) * (1 - yz**2)
        is_defined = left > 1e-12
        value = np.where(is_defined, np.clip((xy - xz * yz) / np.sqrt(np.where(is_defined, left, 1.0)), -1.0, 1.0), 0.0)
        if weights is None or np.ndim(weights) == 1:
            if not is_defined[0]:
                raise InputError("no partial correlation is defined: what is held constant determines a variable")
            return float(value[0])
        return value


def _standard(values: Array) -> Array:
    centred_values = values - values.mean()
    spread = float(np.abs(centred_values).max())
    # a constant leaves only rounding errors; it is set exactly to zero so that it is recognised below
    if spread <= 1e-13 * max(float(np.abs(values).max()), 1e-300):
        return np.zeros_like(values)
    scaled_values: Array = centred_values / spread
    return scaled_values


def _mean_ranks(weight: Array, ranks: Array, levels: int) -> Array:
    """The mean rank of each point's level among the weighted points, as a share of them and centred at 0."""
    level_counts = np.bincount(ranks, weights=weight, minlength=levels)
    middle_positions = np.cumsum(level_counts) - level_counts / 2
    total_weight = float(weight.sum())
    centred_ranks: Array = (middle_positions / total_weight - 0.5)[ranks] if total_weight else np.zeros(len(ranks))
    return centred_ranks


def _ratio(sums: Array, weights: Numbers | None, symbol: str) -> Any:
    """r from the sums [resamples, 6] of 1, x, y, x², y² and xy."""
    n, x, y, xx, yy, xy = sums.T
    n = np.maximum(n, 1)
    spread_x, spread_y = xx - x * x / n, yy - y * y / n
    is_defined = (spread_x > 1e-14 * np.maximum(xx, 1e-300)) & (spread_y > 1e-14 * np.maximum(yy, 1e-300))
    product = np.sqrt(np.where(is_defined, spread_x, 1.0)) * np.sqrt(np.where(is_defined, spread_y, 1.0))
    value = np.where(is_defined, np.clip((xy - x * y / n) / product, -1.0, 1.0), 0.0)
    if weights is None or np.ndim(weights) == 1:
        if not is_defined[0]:
            raise InputError(f"{symbol} needs at least two distinct values in each variable; one of them is constant")
        return float(value[0])
    return value


class Intercept:
    """The value at x = 0 of the least-squares line of y on x, for any weights.

    A resample in which x does not vary has the slope of all points.

    Raises:
        InputError: fewer than two points, or x has one value only, which is not 0.
    """

    symbol = "intercept"

    def __init__(self, x: Numbers, y: Numbers) -> None:
        self._x, self._y = paired(x, y)
        if np.ptp(self._x) == 0 and self._x[0] != 0:
            raise InputError(f"every x is {self._x[0]:g}, so nothing says what y is where x is 0")
        self.slope = 0.0
        self.slope = float(self._line(np.ones((1, len(self._x))))[1][0])

    def __call__(self, weights: Numbers | None = None) -> Any:
        """The value: a float for weights None or [n], float64[resamples] for [resamples, n]."""
        value = self._line(resamples_of(weights, len(self._x)).astype(float))[0]
        return float(value[0]) if weights is None or np.ndim(weights) == 1 else value

    def _line(self, weight_table: Array) -> tuple[Array, Array]:
        """Intercepts and slopes of resamples (resamples, points)."""
        count = np.maximum(weight_table.sum(axis=1), 1)
        x, y = weight_table @ self._x / count, weight_table @ self._y / count
        xx, xy = weight_table @ self._x**2 / count - x * x, weight_table @ (self._x * self._y) / count - x * y
        varies = xx > 1e-12 * np.maximum(x * x, 1e-300)
        slope = np.where(varies, xy / np.where(varies, xx, 1.0), self.slope)
        return y - slope * x, slope


class MeanOfGroups:
    """The mean over groups of a statistic of x and y; groups in which x or y is constant are left out."""

    symbol = "mean of groups"

    def __init__(self, make: Callable[[Any, Any], Any], x: Numbers, y: Numbers, groups: Sequence[Any]) -> None:
        x_values, y_values = paired(x, y)
        if len(groups) != len(x_values):
            raise InputError(f"expected one group for each of {len(x_values)} points, but got {len(groups)}")
        group_rows: dict[Any, list[int]] = {}
        for index, group in enumerate(groups):
            group_rows.setdefault(group, []).append(index)
        self._n = len(x_values)
        self._parts = {
            group: (np.asarray(rows), make(x_values[rows], y_values[rows]))
            for group, rows in group_rows.items()
            if len(set(x_values[rows].tolist())) > 1 and len(set(y_values[rows].tolist())) > 1
        }
        if not self._parts:
            raise InputError(f"in none of the {len(group_rows)} groups do both variables have two distinct values")

    def by_group(self) -> dict[Any, float]:
        """Each group's value."""
        return {group: float(statistic()) for group, (_, statistic) in self._parts.items()}

    def __call__(self, weights: Numbers | None = None) -> Any:
        """The mean: a float for weights None or [n], float64[resamples] for [resamples, n]; absent groups omitted."""
        if weights is None:
            return float(np.mean(list(self.by_group().values())))
        weight_table = resamples_of(weights, self._n)
        value_sums, group_counts = np.zeros(len(weight_table)), np.zeros(len(weight_table))
        for group_rows, statistic in self._parts.values():
            group_weights = weight_table[:, group_rows]
            is_present = group_weights.sum(axis=1) > 1
            value_sums += np.where(is_present, statistic(group_weights), 0.0)
            group_counts += is_present
        values = value_sums / np.maximum(group_counts, 1)
        return float(values[0]) if np.ndim(weights) == 1 else values
