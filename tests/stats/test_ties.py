"""Preferences: what is a tie and what is not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capmeter.core.errors import InputError
from capmeter.stats.ties import sign_with_tolerance

NUMBERS = st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), min_size=1, max_size=10)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (1.0, 1.0, 0),
        (1.0, 1.0 + 1e-7, 0),
        (1.0, 1.0 + 1e-5, -1),
        (2e-9, 1e-9, 1),  # tiny scores (unsmoothed BLEU) still differ
        (0.0, 1e-300, -1),
        (0.0, 0.0, 0),
        (-1.0, -1.0 - 1e-8, 0),
        (-1.0, 1.0, -1),
    ],
)
def test_by_hand(first: float, second: float, expected: int) -> None:
    assert sign_with_tolerance([first], [second]).tolist() == [expected]


@given(NUMBERS)
def test_it_is_antisymmetric(pairs: list[tuple[float, float]]) -> None:
    a, b = np.array(pairs).T
    assert (sign_with_tolerance(a, b) == -sign_with_tolerance(b, a)).all()
    assert (sign_with_tolerance(a, a) == 0).all()


def test_columns_broadcast() -> None:
    assert sign_with_tolerance([[1.0], [2.0]], [[1.0, 2.0], [1.0, 2.0]]).tolist() == [[0, -1], [1, 0]]


def test_what_is_no_number_is_refused() -> None:
    with pytest.raises(InputError, match="finite scores"):
        sign_with_tolerance([np.nan], [1.0])
