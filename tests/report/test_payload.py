from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capmeter.report.payload import MISSING, Payload, decimals_for, unpack


@given(st.lists(st.integers(-(2**31), 2**31 - 1)), st.dictionaries(st.text(), st.text()))
def test_what_goes_in_comes_out(values: list[int], head: dict[str, str]) -> None:
    payload = Payload(head)
    payload.column("a", values)
    payload.column("b", values[:1])
    assert unpack(payload.text()) == (head, {"a": values, "b": values[:1]})


def test_half_surrogates_survive() -> None:
    payload = Payload({"texts": ["\ud83d", "</script>", "\u2028"]})
    text = payload.text()
    assert unpack(text)[0] == {"texts": ["\ud83d", "</script>", "\u2028"]}
    assert text.isascii() and not set(text) & set("<>&\"'")


def test_numbers_keep_five_digits_and_gaps() -> None:
    payload = Payload({})
    assert payload.numbers("x", np.array([0.123456, np.nan, -0.5])) == 5
    assert payload.numbers("y", np.array([27.123456, 0.0])) == 3
    _, columns = unpack(payload.text())
    assert columns == {"x": [12346, MISSING, -50000], "y": [27123, 0]}


@pytest.mark.parametrize(("largest", "decimals"), [(0.0, 5), (1.0, 5), (0.05, 6), (9.5, 4), (1e6, 0), (1e-9, 9)])
def test_decimals(largest: float, decimals: int) -> None:
    assert decimals_for(largest) == decimals


def test_equal_data_give_equal_pages() -> None:
    assert Payload({"a": 1}).text() == Payload({"a": 1}).text()
