"""How much likelier a word piece is in a caption of a photo if another piece is in another caption of the same photo.

    a(w, v) = max(0, ln (n(w, v) + 3) / (e(w, v) + 3))

n: pairs of captions of one photo of which one has w and the other v; e: as many as there would be if what one says
told nothing of the other. Two words for one thing are near a(w, w): *couch* and *sofa* 3.9, where *couch* and *couch*
are 4.0; *dog* and *cat*, which resemble each other but are not the same thing, .3 of 3.4. Vectors of words by the
texts that they are in cannot tell that.

a is kept as a ≈ Σ_d s_d x_wd x_vd, s_d = ±1, in 64 directions: the largest eigenvalues of a, where a row and a column
weigh as the square root of how frequent their word piece is. Pieces that are rare have no vector and no associations.

>>> said = [[5, 6], [7, 6], [8, 9], [8, 9]] * 20  # captions, of photos 0, 0, 1, 1, 2, 2 ...
>>> said = [np.array(each, np.int32) for each in said]
>>> made = Associations.counted(said, np.arange(80) // 2, size=10, least=9, directions=4)
>>> vectors = made.vectors(10)
>>> ((vectors[[5, 5, 8]] * made.signs) @ vectors[[7, 8, 9]].T).round(1).diagonal()  # 5 and 7, 5 and 8, 8 and 9
array([1.1, 0. , 0.6], dtype=float32)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

ASSOCIATED = 64
LEAST = 50
"""So many captions have a word piece that has associations."""
_SMOOTHED, _WEIGHT = 3.0, 0.5
_LEVELS = 127
_NAMES = ("associations.pieces", "associations.levels", "associations.steps", "associations.signs")
Floats32 = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Associations:
    """pieces: int32[k], those that have a vector. levels: int8[k, directions]; steps: float32[k], x = levels · steps.
    signs: float32[directions].
    """

    pieces: NDArray[np.int32]
    levels: NDArray[np.int8]
    steps: Floats32
    signs: Floats32

    @classmethod
    def counted(
        cls,
        sentences: Sequence[NDArray[np.int32]],
        photos: NDArray[Any],
        size: int,
        least: int = LEAST,
        directions: int = ASSOCIATED,
    ) -> Associations:
        """Those of captions as word pieces of a vocabulary of this size, each of the photo of that number; of pieces
        that at least so many captions have.
        """
        from scipy.sparse import csr_array
        from scipy.sparse.linalg import eigsh

        rows = np.repeat(np.arange(len(sentences)), [len(each) for each in sentences])
        ids = np.concatenate([*sentences, np.zeros(0, np.int32)])
        said = csr_array((np.ones(len(ids), np.float32), (rows, ids)), shape=(len(sentences), size))
        said.data[:] = 1  # a piece that a caption says twice counts once
        pieces = np.flatnonzero(np.asarray(said.sum(axis=0)) >= least)
        said = said[:, pieces]
        by_photo = csr_array((np.ones(len(photos), np.float32), (photos, np.arange(len(photos))))) @ said
        together = (by_photo.T @ by_photo - said.T @ said).toarray()
        each = together.sum(axis=1, dtype=np.float64)
        share = (each / max(float(each.sum()), 1.0)).astype(np.float32)
        expected = np.outer(share, each.astype(np.float32))
        strength = np.log((together + _SMOOTHED) / (expected + _SMOOTHED)).clip(min=0)
        weights = np.maximum(share, share[share > 0].min(initial=1.0)) ** _WEIGHT
        x, signs = np.zeros((len(pieces), directions)), np.ones(directions, np.float32)
        number = min(directions, len(pieces) - 1)  # of fewer pieces there are fewer directions
        if number > 0:
            start = np.ones(len(pieces), np.float32)  # the same ones in every run
            values, found = eigsh(strength * weights[:, None] * weights, k=number, which="LM", v0=start)
            order = np.argsort(-np.abs(values), kind="stable")
            x[:, :number] = found[:, order] / weights[:, None] * np.sqrt(np.abs(values[order]))
            x[:, :number] *= np.sign(x[np.abs(x).argmax(axis=0), np.arange(directions)])[:number]  # either would do
            signs[:number] = np.where(values[order] < 0, -1, 1)
        steps = np.maximum(np.abs(x).max(axis=1), 1e-9) / _LEVELS
        return cls(
            pieces.astype(np.int32), np.round(x / steps[:, None]).astype(np.int8), steps.astype(np.float32), signs
        )

    def vectors(self, size: int) -> Floats32:
        """x of each word piece of a vocabulary of this size: float32[size, directions]; 0 without associations."""
        found = np.zeros((size, self.levels.shape[1]), np.float32)
        found[self.pieces] = self.levels * self.steps[:, None]
        return found

    def to_weights(self) -> dict[str, NDArray[Any]]:
        """The arrays by name, as a checkpoint holds them."""
        return dict(zip(_NAMES, (self.pieces, self.levels, self.steps, self.signs), strict=True))

    @classmethod
    def from_weights(cls, weights: Mapping[str, NDArray[Any]]) -> Associations:
        """The associations of a checkpoint's arrays; a `KeyError` if it has none."""
        pieces, levels, steps, signs = (np.asarray(weights[name]) for name in _NAMES)
        if levels.ndim != 2 or not len(pieces) == len(levels) == len(steps) or signs.shape != levels.shape[1:]:
            raise ValueError("the arrays of the associations of word pieces do not fit each other")
        return cls(pieces.astype(np.int32), levels.astype(np.int8), steps.astype(np.float32), signs.astype(np.float32))


def is_of_associations(name: str) -> bool:
    """Whether a checkpoint's array belongs to the associations."""
    return name in _NAMES
