"""The intercept of a regression line: what is y where x is 0?

>>> Intercept([-1, 0, 1, 2], [1, 3, 5, 7])()
3.0
"""

from __future__ import annotations

from typing import Any

import numpy as np

from capmeter.core.errors import InputError
from capmeter.stats.kendall import Array, Numbers, paired, resamples_of


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
