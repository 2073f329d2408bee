"""Word pieces alone, without the sentence around them: what they mean, and whether they name things.

    v(p) = unit(Bᵀ (e(p) - m))        thing(p) = the share of p's occurrences in captions that are in a noun

e: the input embeddings of an encoder, where "couch" is near "sofa" and far from "table" in any sentence, as states of
its last layer are not. m, B: mean and principal directions of the embeddings of captions' word pieces, each weighted by
the square root of how often it occurs.

>>> embeddings = np.array([[0, 1], [0, -1], [0.2, 1], [9, 9]], np.float32)
>>> lexicon = Lexicon.learned(embeddings, counts=np.array([4, 4, 1, 0]), things=np.zeros(4), directions=1)
>>> np.abs(lexicon.vectors(embeddings)[:, 0] - lexicon.vectors(embeddings)[0, 0]).tolist()
[0.0, 2.0, 0.0, 0.0]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats32 = NDArray[np.float32]
DIRECTIONS = 64
_NAMES = ("lexicon.mean", "lexicon.basis", "lexicon.things")


@dataclass(frozen=True, eq=False)
class Lexicon:
    """mean: float32[width]. basis: float32[width, directions]. things: float32[V], 0 to 1."""

    mean: Floats32
    basis: Floats32
    things: Floats32

    @classmethod
    def learned(
        cls, embeddings: Floats32, counts: NDArray[Any], things: NDArray[Any], directions: int = DIRECTIONS
    ) -> Lexicon:
        """The directions of these embeddings [V, width] that matter to word pieces so frequent [V]."""
        weights = np.sqrt(counts.astype(np.float64))
        weights /= weights.sum()
        mean = weights @ embeddings
        centred = embeddings - mean
        _, directions_of = np.linalg.eigh((centred * weights[:, None]).T @ centred)
        basis = directions_of[:, ::-1][:, :directions]
        shares = things.astype(np.float16).astype(np.float32)  # as a checkpoint holds them
        return cls(mean.astype(np.float32), basis.astype(np.float32), shares)

    def vectors(self, embeddings: Floats32) -> Floats32:
        """v of every word piece: float32[V, directions], unit vectors."""
        found = (embeddings - self.mean) @ self.basis
        unit: Floats32 = found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), np.float32(1e-9))
        return unit

    def to_weights(self) -> dict[str, NDArray[Any]]:
        """The arrays by name, as a checkpoint holds them."""
        return dict(zip(_NAMES, (self.mean, self.basis, self.things.astype(np.float16)), strict=True))

    @classmethod
    def from_weights(cls, weights: Mapping[str, NDArray[Any]]) -> Lexicon:
        """The lexicon of a checkpoint's arrays; a `KeyError` if it has none."""
        mean, basis, things = (np.asarray(weights[name], np.float32) for name in _NAMES)
        if mean.ndim != 1 or basis.ndim != 2 or len(mean) != len(basis) or things.ndim != 1:
            raise ValueError("the arrays of what word pieces mean do not fit each other")
        return cls(mean, basis, things)


def is_of_lexicon(name: str) -> bool:
    """Whether a checkpoint's array belongs to the lexicon."""
    return name in _NAMES
