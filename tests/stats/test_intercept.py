"""The intercept of a regression line, with bootstrap weights."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import linregress

from capmeter.core.errors import InputError
from capmeter.stats.intercept import Intercept


def test_intercept_is_scipys_for_points_and_resamples() -> None:
    random = np.random.default_rng(0)
    x, y = random.normal(3, 2, 40), random.normal(size=40)
    weights = random.integers(0, 3, (5, 40))
    line = Intercept(x, y)
    assert line() == pytest.approx(linregress(x, y).intercept)
    expected = [linregress(np.repeat(x, row), np.repeat(y, row)).intercept for row in weights]
    assert line(weights) == pytest.approx(expected)


def test_x_that_does_not_vary() -> None:
    """Where every x is 0 the intercept is the mean; where it is 2 throughout, nothing is known; a resample of one point
    takes the slope of all: the line through (1, 3) with slope 2 is 1 at 0."""
    assert Intercept([0, 0], [1, 2])() == 1.5
    with pytest.raises(InputError, match="every x is 2"):
        Intercept([2, 2], [1, 2])
    assert Intercept([1, 2], [3, 5])(np.array([[2, 0]])).tolist() == [1.0]
