"""A small language model of captions: how probable a word piece is after the one or the two before it.

    P(c)       = (n(c) + 1) / (N + V)
    P(c | b)   = (n(b, c) + 20 P(c)) / (n(b) + 20)
    P(c | a, b) = (n(a, b, c) + 3 P(c | b)) / (n(a, b) + 3)

n are counts in captions, begin and end tokens included. Pairs and triples that occur less often than a bound are left
out.

>>> rows = [np.array(row, np.int32) for row in ([0, 2, 3, 1], [0, 2, 4, 1], [0, 2, 3, 1])]
>>> model = LanguageModel.counted(rows, size=5, least=1)
>>> model.after_one(np.array([2, 2, 3]), np.array([3, 4, 4])).round(2)
array([-1.43, -1.93, -2.24], dtype=float32)
>>> model.after_two(np.array([0]), np.array([2]), np.array([3])).round(2)
array([-0.79], dtype=float32)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capmeter.metrics.word_pieces import Pieces

FEATURES = 8
_AFTER_ONE, _AFTER_TWO = 20.0, 3.0
_SCALE = 5.0
_PAIRS = ("language.pairs_of", "language.pair_ends", "language.pair_counts")
_TRIPLES = ("language.triples_of", "language.triple_ends", "language.triple_counts")
_PIECES = "language.pieces"
_LARGE = "_large"  # counts that are no byte
_BYTE = 255


OwnCounts = tuple[Counter[int], Counter[int]]
"""How often pairs and triples, by key, occur in captions that are taken away from the counts."""


@dataclass(frozen=True, eq=False)
class LanguageModel:
    """Counts, by keys that ascend.

    pairs: int64, a V + b. pair_counts: int32. triples: int64, (a V + b) V + c. triple_counts: int32. pieces: int32[V],
    counts of pieces.
    """

    pairs: NDArray[np.int64]
    pair_counts: NDArray[np.int32]
    triples: NDArray[np.int64]
    triple_counts: NDArray[np.int32]
    pieces: NDArray[np.int32]

    @classmethod
    def counted(cls, sentences: Iterable[NDArray[np.int32]], size: int, least: int) -> LanguageModel:
        """The model of sentences as word pieces, begin and end included; what occurs `least` times is kept.

        size: V, of at most 2 million word pieces, so that a triple has a key.
        """
        listed = [each.astype(np.int64) for each in sentences]
        none = np.zeros(0, np.int64)
        pieces = np.bincount(np.concatenate([*listed, none]), minlength=size)
        pairs, triples = ([keys(row, size) for row in listed] for keys in (_pairs, _triples))

        def kept(keys: list[NDArray[np.int64]]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
            kinds, counts = np.unique(np.concatenate([*keys, none]), return_counts=True)
            return kinds[counts >= least], counts[counts >= least].astype(np.int32)

        return cls(*kept(pairs), *kept(triples), pieces.astype(np.int32))

    def own(self, captions: Iterable[NDArray[np.int32]]) -> OwnCounts:
        """What the counts have of these captions, if they were counted."""
        size, listed = len(self.pieces), [each.astype(np.int64) for each in captions]
        pairs, triples = (
            Counter(key for row in listed for key in keys(row, size).tolist()) for keys in (_pairs, _triples)
        )
        return pairs, triples

    def after_one(
        self, before: NDArray[Any], piece: NDArray[Any], own: Sequence[OwnCounts | None] = ()
    ) -> NDArray[np.float32]:
        """ln P(piece | before), of the shape of both; own: of each row the counts to take away."""
        size = len(self.pieces)
        wanted = before.astype(np.int64) * size + piece
        together = _without(own, 0, wanted, _counted(self.pairs, self.pair_counts, wanted), self.pair_counts)
        alone = (self.pieces[piece] + 1.0) / (float(self.pieces.sum(dtype=np.int64)) + size)
        chance: NDArray[np.float32] = np.log(
            (together + _AFTER_ONE * alone) / (self.pieces[before] + _AFTER_ONE)
        ).astype(np.float32)
        return chance

    def after_two(
        self, first: NDArray[Any], second: NDArray[Any], piece: NDArray[Any], own: Sequence[OwnCounts | None] = ()
    ) -> NDArray[np.float32]:
        """ln P(piece | first, second), of the shape of all; own: of each row the counts to take away."""
        size = len(self.pieces)
        both = first.astype(np.int64) * size + second
        all_three = both * size + piece
        three = _counted(self.triples, self.triple_counts, all_three)
        three = _without(own, 1, all_three, three, self.triple_counts)
        two = _without(own, 0, both, _counted(self.pairs, self.pair_counts, both), self.pair_counts)
        two = np.maximum(two, three)
        back = np.exp(self.after_one(second, piece, own))
        chance: NDArray[np.float32] = np.log((three + _AFTER_TWO * back) / (two + _AFTER_TWO)).astype(np.float32)
        return chance

    def flow(self, pieces: Pieces, own: Sequence[OwnCounts | None] = ()) -> NDArray[np.float32]:
        """float32[n, t, 8] of each word piece: log probability after the one before it, and of the next one after it;
        whether it is the same as the one before, as the one before that, and as any before it; the log probabilities,
        each after two, of itself, of the next one, and of the one after that. 0 for other pieces; after the end
        comes piece 0. own: of each row what is taken away from the counts, as if those captions had not been counted.
        """
        ids = pieces.ids
        found = np.zeros((*ids.shape, FEATURES), np.float32)
        one = self.after_one(ids[:, :-1], ids[:, 1:], own) / _SCALE
        found[:, 1:, 0] = one
        found[:, :-1, 1] = one
        for distance in (1, 2):
            same = (ids[:, distance:] == ids[:, :-distance]) & pieces.word[:, :-distance]
            found[:, distance:, 1 + distance] = same
        alike = (ids[:, :, None] == ids[:, None, :]) & pieces.word[:, None, :]
        found[:, :, 4] = (alike & np.tri(ids.shape[1], k=-1, dtype=np.bool_)[None]).any(axis=2)
        after = np.pad(ids, ((0, 0), (0, 1)))
        two = self.after_two(ids[:, :-1], ids[:, 1:], after[:, 2:], own) / _SCALE
        found[:, 2:, 5] = two[:, :-1]
        found[:, 1:, 6] = two
        found[:, :-1, 7] = two
        found *= pieces.word[:, :, None]
        return found

    def to_weights(self) -> dict[str, NDArray[Any]]:
        """The arrays by name, as a checkpoint holds them, in the fewest bytes.

        Of each piece how many pairs begin with it, of each pair how many triples; their last pieces; their counts, of
        which those of 255 and more stand apart, in their order. Every triple that is kept begins with a pair that is
        kept, as that is no rarer.
        """
        size = len(self.pieces)
        pairs_of = np.bincount(self.pairs // size, minlength=size)
        triples_of = np.bincount(np.searchsorted(self.pairs, self.triples // size), minlength=len(self.pairs))
        arrays: dict[str, NDArray[Any]] = {_PIECES: self.pieces}
        for (begun, ends, counts), number, keys, each in (
            (_PAIRS, pairs_of, self.pairs, self.pair_counts),
            (_TRIPLES, triples_of, self.triples, self.triple_counts),
        ):
            arrays |= {begun: number, ends: keys % size, counts: np.minimum(each, _BYTE)}
            arrays[counts + _LARGE] = each[each >= _BYTE]
        return {name: each.astype(np.min_scalar_type(int(each.max(initial=0)))) for name, each in arrays.items()}

    @classmethod
    def from_weights(cls, weights: Mapping[str, NDArray[Any]]) -> LanguageModel:
        """The model of a checkpoint's arrays; a `KeyError` if it has none."""
        pieces = np.asarray(weights[_PIECES], np.int32)
        singles = np.arange(len(pieces), dtype=np.int64)
        pairs, pair_counts = _read(weights, _PAIRS, singles, len(pieces))
        triples, triple_counts = _read(weights, _TRIPLES, pairs, len(pieces))
        return cls(pairs, pair_counts, triples, triple_counts, pieces)


def is_of_language_model(name: str) -> bool:
    """Whether a checkpoint's array belongs to the language model."""
    return name.removesuffix(_LARGE) in (*_PAIRS, *_TRIPLES, _PIECES)


def _counted(keys: NDArray[np.int64], counts: NDArray[np.int32], wanted: NDArray[np.int64]) -> NDArray[Any]:
    """The count of each wanted key; 0 where it was left out."""
    if not len(keys):
        return np.zeros(wanted.shape)
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[place] == wanted, counts[place], 0)


def _pairs(row: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    keys: NDArray[np.int64] = row[:-1] * size + row[1:]
    return keys


def _triples(row: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    keys: NDArray[np.int64] = (row[:-2] * size + row[1:-1]) * size + row[2:]
    return keys


def _without(
    own: Sequence[OwnCounts | None],
    which: int,
    wanted: NDArray[np.int64],
    counts: NDArray[Any],
    kept: NDArray[np.int32],
) -> NDArray[Any]:
    """The counts of the wanted keys without those that each row takes away; what becomes rarer than all of those `kept`
    was left out.
    """
    if not any(own):
        return counts
    less, least = counts.copy(), int(kept.min(initial=_BYTE))
    for row, taken in enumerate(own):
        if taken is not None:
            less[row] -= [taken[which][key] for key in wanted[row].tolist()]
    return np.where(less >= least, less, 0)


def _read(
    weights: Mapping[str, NDArray[Any]], names: tuple[str, str, str], begun: NDArray[np.int64], size: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Keys and counts of what these begin, from a checkpoint's arrays."""
    number, ends, counts, large = (np.asarray(weights[name]) for name in (*names, names[2] + _LARGE))
    counts, apart = counts.astype(np.int32), counts == _BYTE
    fitting = len(ends) == len(counts) == number.sum(dtype=np.int64) and len(large) == apart.sum()
    if len(number) != len(begun) or not fitting:
        raise ValueError("the arrays of pairs and triples of word pieces do not fit each other")
    keys = np.repeat(begun, number) * size + ends
    if (np.diff(keys) <= 0).any():
        raise ValueError("the pairs or triples of word pieces do not ascend")
    counts[apart] = large
    return keys, counts
