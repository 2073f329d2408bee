"""A small language model of captions: smoothed probabilities of a word piece after the one or two before it.

    P(c)       = (n(c) + 1) / (N + V)
    P(c | b)   = (n(b, c) + 20 P(c)) / (n(b) + 20)
    P(c | a, b) = (n(a, b, c) + 3 P(c | b)) / (n(a, b) + 3)

n are counts in captions, begin and end tokens included. Bigrams and trigrams below a minimum count are dropped.

>>> captions = [np.array(ids, np.int32) for ids in ([0, 2, 3, 1], [0, 2, 4, 1], [0, 2, 3, 1])]
>>> model = LanguageModel.estimate(captions, size=5, min_count=1)
>>> model.log_bigram(np.array([2, 2, 3]), np.array([3, 4, 4])).round(2)
array([-1.43, -1.93, -2.24], dtype=float32)
>>> model.log_trigram(np.array([0]), np.array([2]), np.array([3])).round(2)
array([-0.79], dtype=float32)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capmeter.metrics.embedding.word_pieces import Pieces

LM_DIM = 8
_BIGRAM_PRIOR, _TRIGRAM_PRIOR = 20.0, 3.0
_SCALE = 5.0
_UNIGRAMS = "language.pieces"
_BIGRAMS = ("language.pairs_of", "language.pair_ends", "language.pair_counts")
_TRIGRAMS = ("language.triples_of", "language.triple_ends", "language.triple_counts")
_OVERFLOW = "_large"  # counts above 254, stored apart
_BYTE = 255

Floats32 = NDArray[np.float32]
Keys = NDArray[np.int64]
CaptionCounts = tuple[Counter[int], Counter[int]]
"""Counts of bigrams and trigrams, by key, in captions to be subtracted."""


@dataclass(frozen=True, eq=False)
class LanguageModel:
    """Counts in captions; n-grams by ascending keys, which encode their ids in base V (the size of the vocabulary)."""

    bigrams: Keys  # (k,): a V + b
    bigram_counts: NDArray[np.int32]  # (k,)
    trigrams: Keys  # (m,): (a V + b) V + c
    trigram_counts: NDArray[np.int32]  # (m,)
    unigram_counts: NDArray[np.int32]  # (V,)

    @classmethod
    def estimate(cls, captions: Iterable[NDArray[np.int32]], size: int, min_count: int) -> LanguageModel:
        """The model of captions.

        Args:
            captions: word-piece ids of each, begin and end included.
            size: V, at most 2 million, so that the key of a trigram fits in 64 bits.
            min_count: rarer bigrams and trigrams are dropped.
        """
        caption_ids = [ids.astype(np.int64) for ids in captions]
        empty = np.zeros(0, np.int64)
        unigram_counts = np.bincount(np.concatenate([*caption_ids, empty]), minlength=size)

        def frequent(keys: list[Keys]) -> tuple[Keys, NDArray[np.int32]]:
            distinct, counts = np.unique(np.concatenate([*keys, empty]), return_counts=True)
            return distinct[counts >= min_count], counts[counts >= min_count].astype(np.int32)

        bigrams, trigrams = (
            frequent([keys(ids, size) for ids in caption_ids]) for keys in (_bigram_keys, _trigram_keys)
        )
        return cls(*bigrams, *trigrams, unigram_counts.astype(np.int32))

    def count_captions(self, captions: Iterable[NDArray[np.int32]]) -> CaptionCounts:
        """The counts of these captions, for the argument `caption_counts` of `features`."""
        vocabulary_size, caption_ids = len(self.unigram_counts), [ids.astype(np.int64) for ids in captions]
        bigrams, trigrams = (
            Counter(key for ids in caption_ids for key in keys(ids, vocabulary_size).tolist())
            for keys in (_bigram_keys, _trigram_keys)
        )
        return bigrams, trigrams

    def log_bigram(
        self, before: NDArray[Any], piece: NDArray[Any], caption_counts: Sequence[CaptionCounts | None] = ()
    ) -> Floats32:
        """ln P(piece | before), elementwise; caption_counts: see `features`."""
        vocabulary_size = len(self.unigram_counts)
        bigram_keys = before.astype(np.int64) * vocabulary_size + piece
        bigram = _subtract(
            caption_counts, 0, bigram_keys, _look_up(self.bigrams, self.bigram_counts, bigram_keys), self.bigram_counts
        )
        unigram_probability = (self.unigram_counts[piece] + 1.0) / (
            float(self.unigram_counts.sum(dtype=np.int64)) + vocabulary_size
        )
        probability = (bigram + _BIGRAM_PRIOR * unigram_probability) / (self.unigram_counts[before] + _BIGRAM_PRIOR)
        log_probability: Floats32 = np.log(probability).astype(np.float32)
        return log_probability

    def log_trigram(
        self,
        first: NDArray[Any],
        second: NDArray[Any],
        piece: NDArray[Any],
        caption_counts: Sequence[CaptionCounts | None] = (),
    ) -> Floats32:
        """ln P(piece | first, second), elementwise; caption_counts: see `features`."""
        vocabulary_size = len(self.unigram_counts)
        bigram_keys = first.astype(np.int64) * vocabulary_size + second
        trigram_keys = bigram_keys * vocabulary_size + piece
        trigram_count = _look_up(self.trigrams, self.trigram_counts, trigram_keys)
        trigram_count = _subtract(caption_counts, 1, trigram_keys, trigram_count, self.trigram_counts)
        context_count = _look_up(self.bigrams, self.bigram_counts, bigram_keys)
        context_count = np.maximum(
            _subtract(caption_counts, 0, bigram_keys, context_count, self.bigram_counts), trigram_count
        )
        bigram_probability = np.exp(self.log_bigram(second, piece, caption_counts))
        probability = (trigram_count + _TRIGRAM_PRIOR * bigram_probability) / (context_count + _TRIGRAM_PRIOR)
        log_probability: Floats32 = np.log(probability).astype(np.float32)
        return log_probability

    def features(self, pieces: Pieces, caption_counts: Sequence[CaptionCounts | None] = ()) -> Floats32:
        """Eight features of each word piece, (n, t, 8): bigram log probabilities of the piece and of the next one;
        whether it equals the one before, the one before that, and any before it; trigram log probabilities of the
        piece, of the next one, and of the one after that. 0 for begin, end and padding; piece 0 follows the end.

        Args:
            pieces: candidates with begin and end.
            caption_counts: of each row, counts to subtract, as if those captions had not been counted in training.
        """
        ids, word_mask = pieces.ids, pieces.word_mask
        features = np.zeros((*ids.shape, LM_DIM), np.float32)
        bigram_logs = self.log_bigram(ids[:, :-1], ids[:, 1:], caption_counts) / _SCALE
        features[:, 1:, 0] = bigram_logs
        features[:, :-1, 1] = bigram_logs
        for distance in (1, 2):
            is_repeated = (ids[:, distance:] == ids[:, :-distance]) & word_mask[:, :-distance]
            features[:, distance:, 1 + distance] = is_repeated
        is_same = (ids[:, :, None] == ids[:, None, :]) & word_mask[:, None, :]
        features[:, :, 4] = (is_same & np.tri(ids.shape[1], k=-1, dtype=np.bool_)[None]).any(axis=2)
        next_ids = np.pad(ids, ((0, 0), (0, 1)))
        trigram_logs = self.log_trigram(ids[:, :-1], ids[:, 1:], next_ids[:, 2:], caption_counts) / _SCALE
        features[:, 2:, 5] = trigram_logs[:, :-1]
        features[:, 1:, 6] = trigram_logs
        features[:, :-1, 7] = trigram_logs
        features *= word_mask[:, :, None]
        return features

    def to_weights(self) -> dict[str, NDArray[Any]]:
        """The arrays under their names in checkpoints, compressed.

        Number of bigrams that start with each piece, and of trigrams that start with each bigram; their last pieces;
        their counts, of which those of 255 and more are stored apart, in order. A trigram's first two pieces are a
        bigram of the model, as it is not rarer.
        """
        vocabulary_size = len(self.unigram_counts)
        bigrams_of = np.bincount(self.bigrams // vocabulary_size, minlength=vocabulary_size)
        trigrams_of = np.bincount(
            np.searchsorted(self.bigrams, self.trigrams // vocabulary_size), minlength=len(self.bigrams)
        )
        arrays: dict[str, NDArray[Any]] = {_UNIGRAMS: self.unigram_counts}
        for (starts_name, ends_name, counts_name), starts, keys, counts in (
            (_BIGRAMS, bigrams_of, self.bigrams, self.bigram_counts),
            (_TRIGRAMS, trigrams_of, self.trigrams, self.trigram_counts),
        ):
            arrays |= {starts_name: starts, ends_name: keys % vocabulary_size, counts_name: np.minimum(counts, _BYTE)}
            arrays[counts_name + _OVERFLOW] = counts[counts >= _BYTE]
        return {name: array.astype(np.min_scalar_type(int(array.max(initial=0)))) for name, array in arrays.items()}

    @classmethod
    def from_weights(cls, weights: Mapping[str, NDArray[Any]]) -> LanguageModel:
        """The model in a checkpoint.

        Raises:
            KeyError: an array is missing.
            ValueError: the arrays' shapes are inconsistent, or keys do not ascend.
        """
        unigram_counts = np.asarray(weights[_UNIGRAMS], np.int32)
        piece_ids = np.arange(len(unigram_counts), dtype=np.int64)
        bigrams, bigram_counts = _decompress(weights, _BIGRAMS, piece_ids, len(piece_ids))
        trigrams, trigram_counts = _decompress(weights, _TRIGRAMS, bigrams, len(piece_ids))
        return cls(bigrams, bigram_counts, trigrams, trigram_counts, unigram_counts)


def _look_up(keys: Keys, counts: NDArray[np.int32], queries: Keys) -> NDArray[Any]:
    """The count of each queried key; 0 where it was dropped."""
    if not len(keys):
        return np.zeros(queries.shape)
    key_positions = np.minimum(np.searchsorted(keys, queries), len(keys) - 1)
    return np.where(keys[key_positions] == queries, counts[key_positions], 0)


def _bigram_keys(ids: Keys, size: int) -> Keys:
    keys: Keys = ids[:-1] * size + ids[1:]
    return keys


def _trigram_keys(ids: Keys, size: int) -> Keys:
    keys: Keys = (ids[:-2] * size + ids[1:-1]) * size + ids[2:]
    return keys


def _subtract(
    caption_counts: Sequence[CaptionCounts | None],
    order_index: int,
    keys: Keys,
    counts: NDArray[Any],
    model_counts: NDArray[np.int32],
) -> NDArray[Any]:
    """The counts of keys minus each row's caption counts; 0 if then below the minimum count of the model."""
    if not any(caption_counts):
        return counts
    remaining_counts, min_count = counts.copy(), int(model_counts.min(initial=_BYTE))
    for row, row_counts in enumerate(caption_counts):
        if row_counts is not None:
            remaining_counts[row] -= [row_counts[order_index][key] for key in keys[row].tolist()]
    return np.where(remaining_counts >= min_count, remaining_counts, 0)


def _decompress(
    weights: Mapping[str, NDArray[Any]], names: tuple[str, str, str], prefixes: Keys, size: int
) -> tuple[Keys, NDArray[np.int32]]:
    """Keys and counts of the n-grams that start with these prefixes, from a checkpoint's arrays."""
    starts, ends, counts, large_counts = (np.asarray(weights[name]) for name in (*names, names[2] + _OVERFLOW))
    counts, is_overflow = counts.astype(np.int32), counts == _BYTE
    is_consistent = len(ends) == len(counts) == starts.sum(dtype=np.int64) and len(large_counts) == is_overflow.sum()
    if len(starts) != len(prefixes) or not is_consistent:
        raise ValueError("inconsistent array shapes in the bigrams or trigrams of the language model")
    keys = np.repeat(prefixes, starts) * size + ends
    if (np.diff(keys) <= 0).any():
        raise ValueError("the bigrams or trigrams of the language model do not ascend")
    counts[is_overflow] = large_counts
    return keys, counts
