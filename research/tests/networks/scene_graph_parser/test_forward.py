"""Word pieces, and parts of the sentence encoder; the recipe's tests compare the network with torch."""

from __future__ import annotations

import math

import numpy as np
import pytest
from capmeter_research.networks.scene_graph_parser.forward import LayerNorm, gelu
from capmeter_research.networks.scene_graph_parser.triples import MAX_PIECES, SPECIAL_PIECES, WordPieceVocabulary
from hypothesis import given
from hypothesis import strategies as st

PIECES = WordPieceVocabulary([*SPECIAL_PIECES, "play", "##ing", "##i", "p", "##s", "-", "t", "cafe"])


@pytest.mark.parametrize(
    ("word", "ids"),
    [
        ("playing", [4, 5]),
        ("Playings", [4, 5, 8]),
        ("playiz", [4, 6, 1]),  # the rest is unknown
        ("t-play", [10, 9, 4]),
        ("Café", [11]),
        ("zoo", [1]),
        ("", [1]),
        ("p" + "s" * 50, [7] + [8] * (MAX_PIECES - 1)),
    ],
)
def test_words_are_split_into_the_longest_pieces(word: str, ids: list[int]) -> None:
    assert PIECES.ids(word) == ids
    assert PIECES.rows([word]).tolist() == [ids + [0] * (MAX_PIECES - len(ids))]


@given(st.text(max_size=60))
def test_any_word_has_pieces(word: str) -> None:
    assert 1 <= len(PIECES.ids(word)) <= MAX_PIECES


def test_special_pieces_come_first() -> None:
    assert len(PIECES) == 12
    assert "play" in PIECES
    assert "playing" not in PIECES
    with pytest.raises(ValueError, match="PAD"):
        WordPieceVocabulary(["a", *SPECIAL_PIECES])


def test_gelu_and_normalisation() -> None:
    x = np.linspace(-6, 6, 97, dtype=np.float32)
    slope = math.sqrt(2 / math.pi)
    expected = [value * (1 + math.tanh(slope * (value + 0.044715 * value**3))) / 2 for value in x.tolist()]
    assert gelu(x) == pytest.approx(expected, abs=1e-6)
    norm = LayerNorm({"norm.weight": np.array([2, 2], np.float32), "norm.bias": np.array([1, 0], np.float32)}, "norm")
    assert norm(np.array([[1, 3]], np.float32)).tolist() == [[-1, 2]]
