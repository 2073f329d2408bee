"""Holm's correction by hand, its properties, and that it keeps its promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capmeter.core.errors import InputError
from capmeter.stats.multiple import holm_correction


def test_by_hand() -> None:
    # sorted .005, .01, .03, .04 times 4, 3, 2, 1, then never less than before
    assert holm_correction([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm_correction([0.9, 0.8]).tolist() == [1.0, 1.0]
    assert holm_correction([0.02]).tolist() == [0.02]
    assert holm_correction([]).tolist() == []


@given(st.lists(st.floats(0, 1), max_size=12))
def test_it_lies_between_p_and_bonferroni_and_keeps_the_order(p: list[float]) -> None:
    adjusted = holm_correction(p)
    values = np.array(p)
    assert (adjusted >= values).all()
    assert (adjusted <= np.minimum(values * len(p), 1) + 1e-15).all()
    assert (np.diff(adjusted[np.argsort(values, kind="stable")]) >= 0).all()


def test_it_errs_at_all_as_rarely_as_promised() -> None:
    random = np.random.default_rng(0)
    errs = np.mean([(holm_correction(random.random(10)) <= 0.05).any() for _ in range(4000)])
    assert 0.04 < errs < 0.06


@pytest.mark.parametrize("p", [[-0.1], [1.1], [float("nan")], [[0.1]]])
def test_what_is_no_p_is_refused(p: list) -> None:
    with pytest.raises(InputError, match="p values between 0 and 1"):
        holm_correction(p)
