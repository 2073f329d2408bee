"""The mean over groups of a statistic, under weights."""

from __future__ import annotations

import numpy as np
import pytest

from capmeter.core.errors import InputError
from capmeter.stats.groups import MeanOfGroups
from capmeter.stats.kendall import TauB

X, Y, GROUPS = [1, 2, 3, 1, 2, 3, 5], [1, 2, 3, 3, 2, 2, 5], ["a", "a", "a", "b", "b", "b", "alone"]


def test_mean_of_groups() -> None:
    mean = MeanOfGroups(TauB, X, Y, GROUPS)
    b = TauB([1, 2, 3], [3, 2, 2])()
    assert mean.by_group() == {"a": 1.0, "b": b} and mean() == pytest.approx((1 + b) / 2)


def test_a_group_that_is_not_drawn_is_left_out() -> None:
    mean = MeanOfGroups(TauB, X, Y, GROUPS)
    sampled = mean(np.asarray([[1, 1, 1, 0, 0, 0, 4], [2, 1, 0, 1, 1, 1, 0]]))
    assert sampled[0] == pytest.approx(1.0)
    assert sampled[1] == pytest.approx((TauB([1, 1, 2], [1, 1, 2])() + TauB([1, 2, 3], [3, 2, 2])()) / 2)


def test_nothing_varies() -> None:
    with pytest.raises(InputError, match="in none of the 2 groups"):
        MeanOfGroups(TauB, [1, 1, 2, 2], [1, 2, 3, 4], ["a", "a", "b", "b"])
