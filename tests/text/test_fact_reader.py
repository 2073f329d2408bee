"""Word pieces, and the reader's parts in numpy; the whole network is compared with torch's in test_factual.py."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capmeter.text.fact_pieces import MOST_PIECES, SPECIAL, WordPieces
from capmeter.text.fact_reader import _gelu, _norm

PIECES = WordPieces([*SPECIAL, "play", "##ing", "##i", "p", "##s", "-", "t", "cafe"])


@pytest.mark.parametrize(
    ("word", "numbers"),
    [
        ("playing", [4, 5]),
        ("Playings", [4, 5, 8]),
        ("playiz", [4, 6, 1]),  # the rest is unknown
        ("t-play", [10, 9, 4]),
        ("Café", [11]),
        ("zoo", [1]),
        ("", [1]),
        ("p" + "s" * 50, [7] + [8] * (MOST_PIECES - 1)),
    ],
)
def test_words_become_the_longest_pieces(word: str, numbers: list[int]) -> None:
    assert PIECES.numbers(word) == numbers
    assert PIECES.rows([word]).tolist() == [numbers + [0] * (MOST_PIECES - len(numbers))]


@given(st.text(max_size=60))
def test_any_word_has_pieces(word: str) -> None:
    assert 1 <= len(PIECES.numbers(word)) <= MOST_PIECES


def test_pieces_begin_with_the_special_ones() -> None:
    assert len(PIECES) == 12
    assert "play" in PIECES
    assert "playing" not in PIECES
    with pytest.raises(ValueError, match="PAD"):
        WordPieces(["a", *SPECIAL])


def test_gelu_and_normalisation() -> None:
    x = np.linspace(-6, 6, 97, dtype=np.float32)
    slope = math.sqrt(2 / math.pi)
    expected = [value * (1 + math.tanh(slope * (value + 0.044715 * value**3))) / 2 for value in x.tolist()]
    assert _gelu(x) == pytest.approx(expected, abs=1e-6)
    made = _norm(np.array([[1, 3]], np.float32), np.array([2, 2], np.float32), np.array([1, 0], np.float32))
    assert made.tolist() == [[-1, 2]]
