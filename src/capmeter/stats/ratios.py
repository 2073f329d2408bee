"""Shares of a total that may be 0, and F1.

>>> ratio([1, 2, 0], [2, 0, 0]).tolist(), f1(np.array([0.5, 0.0]), np.array([1.0, 0.0])).round(3).tolist()
([0.5, 0.0, 0.0], [0.667, 0.0])
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def ratio(numerator: Any, denominator: Any) -> Floats:
    """The quotient, 0 where the denominator is not positive.

    Args:
        numerator: numbers.
        denominator: numbers, of a shape that broadcasts with that of the numerator.
    """
    numerator, denominator = np.asarray(numerator, np.float64), np.asarray(denominator, np.float64)
    zeros = np.zeros(np.broadcast_shapes(numerator.shape, denominator.shape))
    result: Floats = np.divide(numerator, denominator, out=zeros, where=denominator > 0)
    return result


def f1(precision: Floats, recall: Floats) -> Floats:
    """The harmonic mean, 0 where both are 0."""
    return ratio(2 * precision * recall, precision + recall)
