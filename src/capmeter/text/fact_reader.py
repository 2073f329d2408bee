"""What reads a sentence for the graph maker, its forward pass in numpy: the lower layers of a BERT (Devlin 2019).

    x = norm(word + position)                                                               for every word
    y = norm(x + softmax(Q Kᵀ / √d) V W + b),   x ← norm(y + gelu(y W + b) W + b)            for every layer

A word's vector is the mean of its pieces' vectors, so that there are as many states as words. The sentences of one call
have the same number of words, so nothing is padded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.text.fact_pieces import BEGIN_NUMBER, END_NUMBER, NOTHING_NUMBER
from capmeter.text.parser_network import Floats, Integers, Linear

EPSILON = 1e-12  # of BERT's layer normalisation
_SLOPE, _CUBE = np.float32(np.sqrt(2 / np.pi)), np.float32(0.044715)
_ROWS_AT_ONCE = 128  # of the wide layer, which then stays in the processor's cache


@dataclass(frozen=True)
class ReaderShape:
    """Sizes of the reader.

    Args:
        layers: their number.
        heads: attention heads.
        places: the largest number of words, with the begin and end of the sentence.
    """

    layers: int = 2
    heads: int = 12
    places: int = 42


class FactReader:
    """The trained reader.

    Args:
        weights: the tensors of `capmeter.learning.factual.network.ReaderModule` by name.
        shape: what they do not tell.
    """

    def __init__(self, weights: Mapping[str, npt.NDArray[Any]], shape: ReaderShape) -> None:
        self._weights = {name: np.ascontiguousarray(values, np.float32) for name, values in weights.items()}
        self._pieces, self._places = self._weights["pieces"], self._weights["places"]
        self.width = self._pieces.shape[1]
        self._norm = self._weights["norm.weight"], self._weights["norm.bias"]
        self._layers = [_Layer(self._weights, f"layers.{k}", shape.heads) for k in range(shape.layers)]
        if len(self._places) != shape.places:
            raise ValueError(f"weights for {len(self._places)} places, expected {shape.places}")

    def vectors(self, rows: Integers) -> Floats:
        """The vectors [words + 2, width] of words, from their pieces' numbers [words, pieces]; then begin and end."""
        vectors = np.zeros((len(rows) + 2, self.width), np.float32)
        for column in rows.T:
            vectors[:-2] += self._pieces[column] * (column != NOTHING_NUMBER)[:, None]
        vectors[:-2] /= (rows != NOTHING_NUMBER).sum(axis=1, keepdims=True)
        vectors[-2:] = self._pieces[[BEGIN_NUMBER, END_NUMBER]]
        return vectors

    def read(self, words: Integers, vectors: Floats) -> Floats:
        """The vectors and the states of words [B, n], positions in `vectors`: [B, n, 2 width]."""
        count, length = words.shape
        begin, end = (np.full((count, 1), len(vectors) - k) for k in (2, 1))
        own = vectors[np.concatenate([begin, words, end], axis=1)]
        x = _norm((own + self._places[: length + 2]).reshape(-1, self.width), *self._norm)
        for layer in self._layers:
            x = layer(x, count)
        states = x.reshape(count, length + 2, self.width)
        return np.concatenate([own[:, 1:-1], states[:, 1:-1]], axis=2)


class _Layer:
    """Attention and a perceptron, each followed by normalisation."""

    def __init__(self, weights: Mapping[str, Floats], name: str, heads: int) -> None:
        def linear(part: str) -> Linear:
            return Linear(np.ascontiguousarray(weights[f"{name}.{part}.weight"].T), weights[f"{name}.{part}.bias"])

        self.count = heads
        self.heads, self.join, self.widen, self.narrow = map(linear, ("heads", "join", "widen", "narrow"))
        self.joined, self.narrowed = (
            (weights[f"{name}.{part}.weight"], weights[f"{name}.{part}.bias"]) for part in ("joined", "narrowed")
        )

    def __call__(self, x: Floats, sentences: int) -> Floats:
        """The states [words, width] after the layer."""
        width = x.shape[1]
        parts = self.heads(x).reshape(sentences, -1, 3, self.count, width // self.count)
        queries, keys, values = (parts[:, :, k].transpose(0, 2, 1, 3) for k in range(3))
        weights: Floats = queries @ keys.transpose(0, 1, 3, 2)
        weights -= weights.max(axis=3, keepdims=True)
        np.exp(weights, out=weights)
        weights /= weights.sum(axis=3, keepdims=True)
        y = self.join((weights @ values).transpose(0, 2, 1, 3).reshape(-1, width))
        y += x
        y = _norm(y, *self.joined)
        for start in range(0, len(y), _ROWS_AT_ONCE):
            part = y[start : start + _ROWS_AT_ONCE]
            part += self.narrow(_gelu(self.widen(part)))
        return _norm(y, *self.narrowed)


def _norm(x: Floats, scale: Floats, shift: Floats) -> Floats:
    """Every row with mean 0 and variance 1, then scaled and shifted."""
    centred: Floats = x - x.mean(axis=1, keepdims=True)
    spread = np.einsum("td,td->t", centred, centred) / np.float32(x.shape[1])
    centred /= np.sqrt(spread + np.float32(EPSILON))[:, None]
    centred *= scale
    centred += shift
    return centred


def _gelu(x: Floats) -> Floats:
    """x (1 + tanh(√(2/π) (x + .044715 x³))) / 2, BERT's approximation of x Φ(x), with which the reader learned."""
    inner: Floats = x * x
    inner *= _SLOPE * _CUBE
    inner += _SLOPE
    inner *= x
    np.tanh(inner, out=inner)
    inner += np.float32(1)
    inner *= x
    inner *= np.float32(0.5)
    return inner
