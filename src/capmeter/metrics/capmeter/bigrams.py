"""A small language model of captions: how probable a word piece is after the one before it.

    log P(b | a) = log (c(a, b) + k P(b)) / (c(a) + k)             P(b) = (c(b) + 1) / (N + V)

c are counts in captions, begin and end tokens included; k is 20. Pairs that occur less often than a bound are left out.

>>> rows = [np.array(row, np.int32) for row in ([0, 2, 3, 1], [0, 2, 4, 1], [0, 2, 3, 1])]
>>> model = Bigrams.counted(rows, size=5, least=1)
>>> model.log_probability(np.array([2, 2, 3]), np.array([3, 4, 4])).round(2)
array([-1.43, -1.93, -2.24], dtype=float32)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capmeter.metrics.word_pieces import Pieces

FEATURES = 5
_STRENGTH = 20.0
_SCALE = 5.0
_NAMES = ("bigrams.pairs", "bigrams.counts", "bigrams.pieces")


@dataclass(frozen=True, eq=False)
class Bigrams:
    """pairs: int64[n], a * V + b, ascending; counts: int32[n], of the pairs; pieces: int32[V], counts of pieces."""

    pairs: NDArray[np.int64]
    counts: NDArray[np.int32]
    pieces: NDArray[np.int32]

    @classmethod
    def counted(cls, sentences: Iterable[NDArray[np.int32]], size: int, least: int) -> Bigrams:
        """The model of sentences as word pieces, begin and end included; pairs that occur `least` times are kept."""
        listed = list(sentences)
        pieces = np.bincount(np.concatenate([*listed, np.zeros(0, np.int32)]), minlength=size)
        keys = [row[:-1].astype(np.int64) * size + row[1:] for row in listed]
        pairs, counts = np.unique(np.concatenate([*keys, np.zeros(0, np.int64)]), return_counts=True)
        kept = counts >= least
        return cls(pairs[kept], counts[kept].astype(np.int32), pieces.astype(np.int32))

    def log_probability(self, before: NDArray[Any], after: NDArray[Any]) -> NDArray[np.float32]:
        """ln P(after | before), of the shape of both."""
        size = len(self.pieces)
        keys = before.astype(np.int64) * size + after
        place = np.minimum(np.searchsorted(self.pairs, keys), max(len(self.pairs) - 1, 0))
        together = np.zeros(keys.shape)
        if len(self.pairs):
            together = np.where(self.pairs[place] == keys, self.counts[place], 0)
        alone = (self.pieces[after] + 1.0) / (float(self.pieces.sum(dtype=np.int64)) + size)
        chance: NDArray[np.float32] = np.log((together + _STRENGTH * alone) / (self.pieces[before] + _STRENGTH)).astype(
            np.float32
        )
        return chance

    def flow(self, pieces: Pieces) -> NDArray[np.float32]:
        """float32[n, t, 5] of each word piece: log probability after the one before it, and of the next one after it;
        whether it is the same as the one before, as the one before that, and as any before it. 0 for other pieces.
        """
        ids, rows = pieces.ids, pieces.ids.shape[0]
        found = np.zeros((*ids.shape, FEATURES), np.float32)
        chance = self.log_probability(ids[:, :-1], ids[:, 1:]) / _SCALE
        found[:, 1:, 0] = chance
        found[:, :-1, 1] = chance
        for distance in (1, 2):
            same = (ids[:, distance:] == ids[:, :-distance]) & pieces.word[:, :-distance]
            found[:, distance:, 1 + distance] = same
        alike = (ids[:, :, None] == ids[:, None, :]) & pieces.word[:, None, :]
        found[:, :, 4] = (alike & np.tri(ids.shape[1], k=-1, dtype=np.bool_)[None]).any(axis=2)
        found *= pieces.word[:, :, None]
        return found.reshape(rows, ids.shape[1], FEATURES)

    def to_weights(self) -> dict[str, NDArray[Any]]:
        """The arrays by name, as a checkpoint holds them."""
        return dict(zip(_NAMES, (self.pairs, self.counts, self.pieces), strict=True))

    @classmethod
    def from_weights(cls, weights: Mapping[str, NDArray[Any]]) -> Bigrams:
        """The model of a checkpoint's arrays; a `KeyError` if it has none."""
        pairs, counts, pieces = (np.asarray(weights[name]) for name in _NAMES)
        if pairs.shape != counts.shape or pairs.ndim != 1 or pieces.ndim != 1 or (np.diff(pairs) <= 0).any():
            raise ValueError("the arrays of pairs of word pieces do not fit each other")
        return cls(pairs, counts, pieces)


def is_bigram(name: str) -> bool:
    """Whether a checkpoint's array belongs to the language model."""
    return name in _NAMES
