"""A statistic within each group, and its mean over groups: WMT's language pairs, the captions of one image.

>>> from capmeter.stats.kendall import TauB
>>> MeanOfGroups(TauB, [1, 2, 3, 1, 2, 3], [1, 2, 3, 3, 2, 1], ["a", "a", "a", "b", "b", "b"]).by_group()
{'a': 1.0, 'b': -1.0}
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from capmeter.core.errors import InputError
from capmeter.stats.kendall import Numbers, paired, resamples_of


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
