"""Rows and texts held compactly come back as they were."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from capmeter.evaluation.compact import PackedRows, PackedTexts

NUMBERS = (
    st.integers(0, 300).map(float)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([-0.0, 255.0, 256.0, 65535.0, 65536.0, 2.0**32 - 1, 2.0**32, 1e300, -1.0, 0.1])
)


def same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and one.tobytes() == other.tobytes()


@given(data=st.data(), columns=st.integers(1, 4), parts=st.integers(1, 4))
def test_rows_come_back_to_the_last_bit(data: st.DataObject, columns: int, parts: int) -> None:
    shapes = [(data.draw(st.integers(1, 9)), columns) for _ in range(parts)]
    given_rows = [data.draw(arrays.arrays(np.float64, shape, elements=NUMBERS)) for shape in shapes]
    rows = PackedRows(given_rows)
    assert same_bits(rows.array, np.concatenate(given_rows)) and len(rows) == sum(map(len, given_rows))
    assert all(same_bits(one, other) for one, other in zip(rows.blocks, given_rows, strict=True))


@pytest.mark.parametrize("columns", [1, 2, 5, 25])
def test_sums_are_those_of_one_array_to_the_last_bit(columns: int) -> None:
    draw = np.random.default_rng(0)
    parts = [draw.standard_normal((size, columns)) for size in (8192, 1, 700, 8192, 13)]
    assert same_bits(PackedRows(parts).sums(), np.concatenate(parts).sum(axis=0))


def test_counts_take_a_byte() -> None:
    assert PackedRows([np.arange(250.0)[:, None]]).nbytes == 250
    assert PackedRows([np.arange(300.0)[:, None]]).nbytes == 600
    assert PackedRows([np.full((4, 1), -0.0)]).nbytes == 32, "a byte has no negative zero"


@given(parts=st.lists(st.lists(st.text(max_size=5), max_size=5), max_size=4), data=st.data())
def test_texts_are_a_sequence(parts: list[list[str]], data: st.DataObject) -> None:
    plain, texts = [text for part in parts for text in part], PackedTexts(parts)
    assert list(texts) == plain and len(texts) == len(plain)
    bound = st.none() | st.integers(-30, 30)
    selected = slice(data.draw(bound), data.draw(bound), data.draw(st.sampled_from([None, 1, 2, -1])))
    assert texts[selected] == plain[selected]
    for k in range(-len(plain), len(plain)):
        assert texts[k] == plain[k]
    with pytest.raises(IndexError):
        texts[len(plain)]
