"""What the metric `capmeter` knows about word pieces before it reads a caption, stored in its checkpoint.

**Associations**, pointwise mutual information of pieces across captions of one photo: how much v raises the odds of w.

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

**Language model** of captions, a small one: smoothed probabilities of a word piece after the one or two before it.

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

**Lexicon**: static embeddings of word pieces, and how often each is part of a noun.

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

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from capmeter.encoders import Encoder
from capmeter.metrics.embedding.word_pieces import Pieces

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class PieceFeatures:
    """Context-free features of the V word pieces of a vocabulary."""

    static: NDArray[np.float32]  # (V, static_dim), unit vectors
    noun_shares: NDArray[np.float32]  # (V,)
    associations: NDArray[np.float32]  # (V, association_dim)
    association_signs: NDArray[np.float32]  # (association_dim,)
    _tensors: dict[str, tuple[Tensor, ...]] = field(default_factory=dict)

    def on(self, device: str) -> tuple[Tensor, ...]:
        """The four as tensors on a device, moved there once."""
        import torch

        if device not in self._tensors:
            arrays = self.static, self.noun_shares, self.associations, self.association_signs
            self._tensors[device] = tuple(torch.from_numpy(array).to(device) for array in arrays)
        return self._tensors[device]


@dataclass(frozen=True, eq=False)
class TokenPriors:
    """Probabilities of word pieces in context, their static embeddings, and their associations within a photo."""

    language_model: LanguageModel
    lexicon: Lexicon
    associations: Associations

    def piece_features(self, encoder: Encoder) -> PieceFeatures:
        """The context-free features of an encoder's word pieces."""
        static = self.lexicon.static_embeddings(encoder.embeddings())
        associations = self.associations.vectors(len(static))
        return PieceFeatures(static, self.lexicon.noun_shares, associations, self.associations.signs)

    def to_weights(self) -> dict[str, NDArray[Any]]:
        """The arrays under their names in checkpoints."""
        return {**self.language_model.to_weights(), **self.lexicon.to_weights(), **self.associations.to_weights()}

    @classmethod
    def from_weights(cls, weights: Mapping[str, NDArray[Any]]) -> TokenPriors:
        """The priors in a checkpoint; a `KeyError` if it has none."""
        language_model, lexicon = LanguageModel.from_weights(weights), Lexicon.from_weights(weights)
        return cls(language_model, lexicon, Associations.from_weights(weights))


def is_prior_array(name: str) -> bool:
    """Whether an array of a checkpoint belongs to the priors, not to a network."""
    return name.startswith(("language.", "lexicon.", "associations."))


ASSOCIATION_DIM = 64
MIN_CAPTIONS = 50
"""Number of captions that contain a word piece, for it to have associations."""
_SMOOTHING, _FREQUENCY_POWER = 3.0, 0.5
_LEVELS = 127
_ASSOCIATION_NAMES = ("associations.pieces", "associations.levels", "associations.steps", "associations.signs")


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
        return dict(zip(_ASSOCIATION_NAMES, (self.pieces, self.levels, self.steps, self.signs), strict=True))

    @classmethod
    def from_weights(cls, weights: Mapping[str, NDArray[Any]]) -> Associations:
        """The associations in a checkpoint.

        Raises:
            KeyError: an array is missing.
            ValueError: the arrays' shapes are inconsistent.
        """
        pieces, levels, steps, signs = (np.asarray(weights[name]) for name in _ASSOCIATION_NAMES)
        if levels.ndim != 2 or not len(pieces) == len(levels) == len(steps) or signs.shape != levels.shape[1:]:
            raise ValueError("inconsistent array shapes in the associations of word pieces")
        return cls(pieces.astype(np.int32), levels.astype(np.int8), steps.astype(np.float32), signs.astype(np.float32))


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


STATIC_DIM = 64
_LEXICON_NAMES = ("lexicon.mean", "lexicon.basis", "lexicon.things")


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
        return dict(zip(_LEXICON_NAMES, (self.mean, self.basis, self.noun_shares.astype(np.float16)), strict=True))

    @classmethod
    def from_weights(cls, weights: Mapping[str, NDArray[Any]]) -> Lexicon:
        """The lexicon in a checkpoint.

        Raises:
            KeyError: an array is missing.
            ValueError: the arrays' shapes are inconsistent.
        """
        mean, basis, noun_shares = (np.asarray(weights[name], np.float32) for name in _LEXICON_NAMES)
        if mean.ndim != 1 or basis.ndim != 2 or len(mean) != len(basis) or noun_shares.ndim != 1:
            raise ValueError("inconsistent array shapes in the lexicon")
        return cls(mean, basis, noun_shares)
