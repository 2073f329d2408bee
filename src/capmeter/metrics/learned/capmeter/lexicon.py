"""Static embeddings of word pieces, and how often each is part of a noun.

    v(p) = unit(Bᵀ (e(p) - m))        noun share(p) = share of p's occurrences in captions that are in a noun

e: the input embeddings of an encoder, in which "couch" is close to "sofa" and far from "table" in any sentence, unlike
in the states of its last layer. m, B: mean and principal directions of the embeddings, each word piece weighted by the
square root of its frequency in captions.

>>> embeddings = np.array([[0, 1], [0, -1], [0.2, 1], [9, 9]], np.float32)
>>> lexicon = Lexicon.estimate(embeddings, counts=np.array([4, 4, 1, 0]), noun_shares=np.zeros(4), dim=1)
>>> v = lexicon.static_embeddings(embeddings)[:, 0]
>>> np.abs(v - v[0]).tolist()
[0.0, 2.0, 0.0, 0.0]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats32 = NDArray[np.float32]
STATIC_DIM = 64
_NAMES = ("lexicon.mean", "lexicon.basis", "lexicon.things")


@dataclass(frozen=True, eq=False)
class Lexicon:
    """The projection of an encoder's input embeddings, and noun shares."""

    mean: Floats32  # m, (width,)
    basis: Floats32  # B, (width, dim)
    noun_shares: Floats32  # (vocabulary,), 0 to 1

    @classmethod
    def estimate(
        cls, embeddings: Floats32, counts: NDArray[Any], noun_shares: NDArray[Any], dim: int = STATIC_DIM
    ) -> Lexicon:
        """The lexicon of input embeddings (V, width), with counts and noun shares in captions (V,)."""
        piece_weights = np.sqrt(counts.astype(np.float64))
        piece_weights /= piece_weights.sum()
        mean = piece_weights @ embeddings
        centred_embeddings = embeddings - mean
        _, directions = np.linalg.eigh((centred_embeddings * piece_weights[:, None]).T @ centred_embeddings)
        basis = directions[:, ::-1][:, :dim]
        rounded_shares = noun_shares.astype(np.float16).astype(np.float32)  # the precision of checkpoints
        return cls(mean.astype(np.float32), basis.astype(np.float32), rounded_shares)

    def static_embeddings(self, embeddings: Floats32) -> Floats32:
        """v of every word piece, (vocabulary, dim), unit vectors."""
        projected_embeddings = (embeddings - self.mean) @ self.basis
        unit_vectors: Floats32 = projected_embeddings / np.maximum(
            np.linalg.norm(projected_embeddings, axis=1, keepdims=True), np.float32(1e-9)
        )
        return unit_vectors

    def to_weights(self) -> dict[str, NDArray[Any]]:
        """The arrays under their names in checkpoints."""
        return dict(zip(_NAMES, (self.mean, self.basis, self.noun_shares.astype(np.float16)), strict=True))

    @classmethod
    def from_weights(cls, weights: Mapping[str, NDArray[Any]]) -> Lexicon:
        """The lexicon in a checkpoint.

        Raises:
            KeyError: an array is missing.
            ValueError: the arrays' shapes are inconsistent.
        """
        mean, basis, noun_shares = (np.asarray(weights[name], np.float32) for name in _NAMES)
        if mean.ndim != 1 or basis.ndim != 2 or len(mean) != len(basis) or noun_shares.ndim != 1:
            raise ValueError("inconsistent array shapes in the lexicon")
        return cls(mean, basis, noun_shares)
