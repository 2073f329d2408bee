"""Pointwise mutual information of word pieces across captions of one photo: how much v raises the odds of w.

    a(w, v) = max(0, ln (n(w, v) + 3) / (e(w, v) + 3))

n: ordered pairs of captions of one photo of which one has w and the other v; e: the number expected if the two captions
were independent. Two words for one thing have almost a(w, w): *couch* and *sofa* 3.9, *couch* and *couch* 4.0; words
for similar things do not: *dog* and *cat* .3 of 3.4. Vectors learned from running text do not distinguish these.

a is factorised as a ≈ Σ_d s_d x_wd x_vd, s_d = ±1, in 64 dimensions: the largest eigenvalues of a, rows and columns
weighted by the square root of their piece's frequency. Rare pieces have no vector and no associations.

>>> captions = [[5, 6], [7, 6], [8, 9], [8, 9]] * 20  # of photos 0, 0, 1, 1, 2, 2 ...
>>> captions = [np.array(ids, np.int32) for ids in captions]
>>> associations = Associations.estimate(captions, np.arange(80) // 2, size=10, min_captions=9, dim=4)
>>> x = associations.vectors(10)
>>> ((x[[5, 5, 8]] * associations.signs) @ x[[7, 8, 9]].T).round(1).diagonal()  # 5 and 7, 5 and 8, 8 and 9
array([1.1, 0. , 0.6], dtype=float32)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

ASSOCIATION_DIM = 64
MIN_CAPTIONS = 50
"""Number of captions that contain a word piece, for it to have associations."""
_SMOOTHING, _FREQUENCY_POWER = 3.0, 0.5
_LEVELS = 127
_NAMES = ("associations.pieces", "associations.levels", "associations.steps", "associations.signs")


@dataclass(frozen=True, eq=False)
class Associations:
    """Factorised associations of the k frequent word pieces, quantised to a byte per element."""

    pieces: NDArray[np.int32]  # (k,), their ids
    levels: NDArray[np.int8]  # (k, dim)
    steps: NDArray[np.float32]  # (k,): x = levels · steps
    signs: NDArray[np.float32]  # (dim,)

    @classmethod
    def estimate(
        cls,
        captions: Sequence[NDArray[np.int32]],
        photos: NDArray[Any],
        size: int,
        min_captions: int = MIN_CAPTIONS,
        dim: int = ASSOCIATION_DIM,
    ) -> Associations:
        """The associations in captions.

        Args:
            captions: word-piece ids of each.
            photos: the number of each caption's photo, (captions,).
            size: of the vocabulary.
            min_captions: number of captions that must contain a piece.
            dim: number of dimensions.
        """
        from scipy.sparse import csr_array
        from scipy.sparse.linalg import eigsh

        caption_rows = np.repeat(np.arange(len(captions)), [len(piece_ids) for piece_ids in captions])
        piece_ids = np.concatenate([*captions, np.zeros(0, np.int32)])
        contains = csr_array(
            (np.ones(len(piece_ids), np.float32), (caption_rows, piece_ids)), shape=(len(captions), size)
        )
        contains.data[:] = 1  # repetitions count once
        frequent_pieces = np.flatnonzero(np.asarray(contains.sum(axis=0)) >= min_captions)
        contains = contains[:, frequent_pieces]
        matrix_shape = int(np.max(photos, initial=-1)) + 1, len(captions)
        photo_entries = np.ones(len(photos), np.float32), (photos, np.arange(len(photos)))
        by_photo = csr_array(photo_entries, shape=matrix_shape) @ contains
        observed_counts = (by_photo.T @ by_photo - contains.T @ contains).toarray()
        piece_totals = observed_counts.sum(axis=1, dtype=np.float64)
        piece_shares = (piece_totals / max(float(piece_totals.sum()), 1.0)).astype(np.float32)
        expected_counts = np.outer(piece_shares, piece_totals.astype(np.float32))
        association_strength = np.log((observed_counts + _SMOOTHING) / (expected_counts + _SMOOTHING)).clip(min=0)
        piece_weights = np.maximum(piece_shares, piece_shares[piece_shares > 0].min(initial=1.0)) ** _FREQUENCY_POWER
        x, signs = np.zeros((len(frequent_pieces), dim)), np.ones(dim, np.float32)
        rank = min(dim, len(frequent_pieces) - 1)
        if rank > 0:
            start_vector = np.ones(len(frequent_pieces), np.float32)  # for reproducible eigenvectors
            eigenvalues, vectors = eigsh(
                association_strength * piece_weights[:, None] * piece_weights, k=rank, which="LM", v0=start_vector
            )
            eigenvalue_order = np.argsort(-np.abs(eigenvalues), kind="stable")
            x[:, :rank] = (
                vectors[:, eigenvalue_order] / piece_weights[:, None] * np.sqrt(np.abs(eigenvalues[eigenvalue_order]))
            )
            x[:, :rank] *= np.sign(x[np.abs(x).argmax(axis=0), np.arange(dim)])[:rank]  # the sign is arbitrary
            signs[:rank] = np.where(eigenvalues[eigenvalue_order] < 0, -1, 1)
        steps = np.maximum(np.abs(x).max(axis=1), 1e-9) / _LEVELS
        levels = np.round(x / steps[:, None]).astype(np.int8)
        return cls(frequent_pieces.astype(np.int32), levels, steps.astype(np.float32), signs)

    def vectors(self, size: int) -> NDArray[np.float32]:
        """x of every word piece of a vocabulary of this size, (size, dim); 0 for rare pieces."""
        vectors = np.zeros((size, self.levels.shape[1]), np.float32)
        vectors[self.pieces] = self.levels * self.steps[:, None]
        return vectors

    def to_weights(self) -> dict[str, NDArray[Any]]:
        """The arrays under their names in checkpoints."""
        return dict(zip(_NAMES, (self.pieces, self.levels, self.steps, self.signs), strict=True))

    @classmethod
    def from_weights(cls, weights: Mapping[str, NDArray[Any]]) -> Associations:
        """The associations in a checkpoint.

        Raises:
            KeyError: an array is missing.
            ValueError: the arrays' shapes are inconsistent.
        """
        pieces, levels, steps, signs = (np.asarray(weights[name]) for name in _NAMES)
        if levels.ndim != 2 or not len(pieces) == len(levels) == len(steps) or signs.shape != levels.shape[1:]:
            raise ValueError("inconsistent array shapes in the associations of word pieces")
        return cls(pieces.astype(np.int32), levels.astype(np.int8), steps.astype(np.float32), signs.astype(np.float32))
