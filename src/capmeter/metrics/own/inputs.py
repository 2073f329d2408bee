"""The inputs of the networks of `capmeter`: word pieces of candidates and references, and cosines of sentence vectors.

Final punctuation is stripped: it says nothing about the picture.

>>> strip_final_punctuation("  Two dogs run. "), strip_final_punctuation("?")
('Two dogs run', '?')

What the metric `capmeter` knows about word pieces before it reads a caption, stored in its checkpoint.

**Associations**, pointwise mutual information of pieces across captions of one photo: how much v raises the odds of w.

    a(w, v) = max(0, ln (n(w, v) + 3) / (e(w, v) + 3))

n: ordered pairs of captions of one photo of which one has w and the other v; e: the number expected if the two captions
were independent. Two words for one thing have almost a(w, w): *couch* and *sofa* 3.9, *couch* and *couch* 4.0; words
for similar things do not: *dog* and *cat* .3 of 3.4. Vectors learned from running text do not distinguish these.

a is factorised as a ≈ Σ_d s_d x_wd x_vd, s_d = ±1, in 64 dimensions: the largest eigenvalues of a, rows and columns
weighted by the square root of their piece's frequency. Rare pieces have no vector and no associations.

**Language model** of captions, a small one: smoothed probabilities of a word piece after the one or two before it.

    P(c)       = (n(c) + 1) / (N + V)
    P(c | b)   = (n(b, c) + 20 P(c)) / (n(b) + 20)
    P(c | a, b) = (n(a, b, c) + 3 P(c | b)) / (n(a, b) + 3)

n are counts in captions, begin and end tokens included. Bigrams and trigrams below a minimum count are dropped.

**Lexicon**: static embeddings of word pieces, and how often each is part of a noun.

    v(p) = unit(Bᵀ (e(p) - m))        noun share(p) = share of p's occurrences in captions that are in a noun

e: the input embeddings of an encoder, in which "couch" is close to "sofa" and far from "table" in any sentence, unlike
in the states of its last layer. m, B: mean and principal directions of the embeddings, each word piece weighted by the
square root of its frequency in captions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from capmeter.captions.caption_set import SentencePool
from capmeter.core.ragged import Ragged
from capmeter.core.settings import Settings
from capmeter.encoders import (
    Encoder,
    EncoderHandle,
    HiddenStates,
    PieceTable,
    SentenceVectors,
    StateTable,
    load_encoder,
)
from capmeter.metrics.embedding.word_pieces import Pieces, caption_blocks

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

    @classmethod
    def from_weights(cls, weights: Mapping[str, NDArray[Any]]) -> TokenPriors:
        """The priors in a checkpoint; a `KeyError` if it has none."""
        language_model, lexicon = LanguageModel.from_weights(weights), Lexicon.from_weights(weights)
        return cls(language_model, lexicon, Associations.from_weights(weights))


def is_prior_array(name: str) -> bool:
    """Whether an array of a checkpoint belongs to the priors, not to a network."""
    return name.startswith(("language.", "lexicon.", "associations."))


ASSOCIATION_DIM = 64
ASSOCIATION_NAMES = ("associations.pieces", "associations.levels", "associations.steps", "associations.signs")


@dataclass(frozen=True, eq=False)
class Associations:
    """Factorised associations of the k frequent word pieces, quantised to a byte per element."""

    pieces: NDArray[np.int32]  # (k,), their ids
    levels: NDArray[np.int8]  # (k, dim)
    steps: NDArray[np.float32]  # (k,): x = levels · steps
    signs: NDArray[np.float32]  # (dim,)

    def vectors(self, size: int) -> NDArray[np.float32]:
        """x of every word piece of a vocabulary of this size, (size, dim); 0 for rare pieces."""
        vectors = np.zeros((size, self.levels.shape[1]), np.float32)
        vectors[self.pieces] = self.levels * self.steps[:, None]
        return vectors

    @classmethod
    def from_weights(cls, weights: Mapping[str, NDArray[Any]]) -> Associations:
        """The associations in a checkpoint.

        Raises:
            KeyError: an array is missing.
            ValueError: the arrays' shapes are inconsistent.
        """
        pieces, levels, steps, signs = (np.asarray(weights[name]) for name in ASSOCIATION_NAMES)
        if levels.ndim != 2 or not len(pieces) == len(levels) == len(steps) or signs.shape != levels.shape[1:]:
            raise ValueError("inconsistent array shapes in the associations of word pieces")
        return cls(pieces.astype(np.int32), levels.astype(np.int8), steps.astype(np.float32), signs.astype(np.float32))


LM_DIM = 8
_BIGRAM_PRIOR, _TRIGRAM_PRIOR = 20.0, 3.0
_SCALE = 5.0
UNIGRAMS = "language.pieces"
BIGRAMS = ("language.pairs_of", "language.pair_ends", "language.pair_counts")
TRIGRAMS = ("language.triples_of", "language.triple_ends", "language.triple_counts")
OVERFLOW = "_large"  # counts above 254, stored apart
LARGEST_BYTE = 255

Floats32 = NDArray[np.float32]
Keys = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LanguageModel:
    """Counts in captions; n-grams by ascending keys, which encode their ids in base V (the size of the vocabulary)."""

    bigrams: Keys  # (k,): a V + b
    bigram_counts: NDArray[np.int32]  # (k,)
    trigrams: Keys  # (m,): (a V + b) V + c
    trigram_counts: NDArray[np.int32]  # (m,)
    unigram_counts: NDArray[np.int32]  # (V,)

    def count_bigrams(self, keys: Keys) -> NDArray[Any]:
        """The count of each of these bigrams; 0 where it was dropped."""
        return _look_up(self.bigrams, self.bigram_counts, keys)

    def count_trigrams(self, keys: Keys) -> NDArray[Any]:
        """The count of each of these trigrams; 0 where it was dropped."""
        return _look_up(self.trigrams, self.trigram_counts, keys)

    def log_bigram(self, before: NDArray[Any], piece: NDArray[Any]) -> Floats32:
        """ln P(piece | before), elementwise."""
        vocabulary_size = len(self.unigram_counts)
        bigram = self.count_bigrams(before.astype(np.int64) * vocabulary_size + piece)
        unigram_probability = (self.unigram_counts[piece] + 1.0) / (
            float(self.unigram_counts.sum(dtype=np.int64)) + vocabulary_size
        )
        probability = (bigram + _BIGRAM_PRIOR * unigram_probability) / (self.unigram_counts[before] + _BIGRAM_PRIOR)
        log_probability: Floats32 = np.log(probability).astype(np.float32)
        return log_probability

    def log_trigram(self, first: NDArray[Any], second: NDArray[Any], piece: NDArray[Any]) -> Floats32:
        """ln P(piece | first, second), elementwise.

        Args:
            first, second: the two pieces before.
            piece: the piece.
        """
        vocabulary_size = len(self.unigram_counts)
        bigram_keys = first.astype(np.int64) * vocabulary_size + second
        trigram_count = self.count_trigrams(bigram_keys * vocabulary_size + piece)
        context_count = np.maximum(self.count_bigrams(bigram_keys), trigram_count)
        bigram_probability = np.exp(self.log_bigram(second, piece))
        probability = (trigram_count + _TRIGRAM_PRIOR * bigram_probability) / (context_count + _TRIGRAM_PRIOR)
        log_probability: Floats32 = np.log(probability).astype(np.float32)
        return log_probability

    def features(self, pieces: Pieces) -> Floats32:
        """Eight features of each word piece, (n, t, 8): bigram log probabilities of the piece and of the next one;
        whether it equals the one before, the one before that, and any before it; trigram log probabilities of the
        piece, of the next one, and of the one after that. 0 for begin, end and padding; piece 0 follows the end.

        `pieces` are candidates with begin and end.
        """
        ids, word_mask = pieces.ids, pieces.word_mask
        features = np.zeros((*ids.shape, LM_DIM), np.float32)
        bigram_logs = self.log_bigram(ids[:, :-1], ids[:, 1:]) / _SCALE
        features[:, 1:, 0] = bigram_logs
        features[:, :-1, 1] = bigram_logs
        for distance in (1, 2):
            is_repeated = (ids[:, distance:] == ids[:, :-distance]) & word_mask[:, :-distance]
            features[:, distance:, 1 + distance] = is_repeated
        is_same = (ids[:, :, None] == ids[:, None, :]) & word_mask[:, None, :]
        features[:, :, 4] = (is_same & np.tri(ids.shape[1], k=-1, dtype=np.bool_)[None]).any(axis=2)
        next_ids = np.pad(ids, ((0, 0), (0, 1)))
        trigram_logs = self.log_trigram(ids[:, :-1], ids[:, 1:], next_ids[:, 2:]) / _SCALE
        features[:, 2:, 5] = trigram_logs[:, :-1]
        features[:, 1:, 6] = trigram_logs
        features[:, :-1, 7] = trigram_logs
        features *= word_mask[:, :, None]
        return features

    @classmethod
    def from_weights(cls, weights: Mapping[str, NDArray[Any]]) -> LanguageModel:
        """The model in a checkpoint.

        Raises:
            KeyError: an array is missing.
            ValueError: the arrays' shapes are inconsistent, or keys do not ascend.
        """
        unigram_counts = np.asarray(weights[UNIGRAMS], np.int32)
        piece_ids = np.arange(len(unigram_counts), dtype=np.int64)
        bigrams, bigram_counts = _decompress(weights, BIGRAMS, piece_ids, len(piece_ids))
        trigrams, trigram_counts = _decompress(weights, TRIGRAMS, bigrams, len(piece_ids))
        return cls(bigrams, bigram_counts, trigrams, trigram_counts, unigram_counts)


def _look_up(keys: Keys, counts: NDArray[np.int32], queries: Keys) -> NDArray[Any]:
    """The count of each queried key; 0 where it was dropped."""
    if not len(keys):
        return np.zeros(queries.shape)
    key_positions = np.minimum(np.searchsorted(keys, queries), len(keys) - 1)
    return np.where(keys[key_positions] == queries, counts[key_positions], 0)


def _decompress(
    weights: Mapping[str, NDArray[Any]], names: tuple[str, str, str], prefixes: Keys, size: int
) -> tuple[Keys, NDArray[np.int32]]:
    """Keys and counts of the n-grams that start with these prefixes, from a checkpoint's arrays."""
    starts, ends, counts, large_counts = (np.asarray(weights[name]) for name in (*names, names[2] + OVERFLOW))
    counts, is_overflow = counts.astype(np.int32), counts == LARGEST_BYTE
    is_consistent = len(ends) == len(counts) == starts.sum(dtype=np.int64) and len(large_counts) == is_overflow.sum()
    if len(starts) != len(prefixes) or not is_consistent:
        raise ValueError("inconsistent array shapes in the bigrams or trigrams of the language model")
    keys = np.repeat(prefixes, starts) * size + ends
    if (np.diff(keys) <= 0).any():
        raise ValueError("the bigrams or trigrams of the language model do not ascend")
    counts[is_overflow] = large_counts
    return keys, counts


STATIC_DIM = 64
LEXICON_NAMES = ("lexicon.mean", "lexicon.basis", "lexicon.things")


@dataclass(frozen=True, eq=False)
class Lexicon:
    """The projection of an encoder's input embeddings, and noun shares."""

    mean: Floats32  # m, (width,)
    basis: Floats32  # B, (width, dim)
    noun_shares: Floats32  # (vocabulary,), 0 to 1

    def static_embeddings(self, embeddings: Floats32) -> Floats32:
        """v of every word piece, (vocabulary, dim), unit vectors."""
        projected_embeddings = (embeddings - self.mean) @ self.basis
        unit_vectors: Floats32 = projected_embeddings / np.maximum(
            np.linalg.norm(projected_embeddings, axis=1, keepdims=True), np.float32(1e-9)
        )
        return unit_vectors

    @classmethod
    def from_weights(cls, weights: Mapping[str, NDArray[Any]]) -> Lexicon:
        """The lexicon in a checkpoint.

        Raises:
            KeyError: an array is missing.
            ValueError: the arrays' shapes are inconsistent.
        """
        mean, basis, noun_shares = (np.asarray(weights[name], np.float32) for name in LEXICON_NAMES)
        if mean.ndim != 1 or basis.ndim != 2 or len(mean) != len(basis) or noun_shares.ndim != 1:
            raise ValueError("inconsistent array shapes in the lexicon")
        return cls(mean, basis, noun_shares)


Block = tuple[NDArray[np.int64], Pieces, Pieces, NDArray[np.float32]]
"""Rows, candidates, references without begin and end, similarities."""
BLOCK_FLOATS = 1 << 22
"""Size of a block's references: what is computed from them stays in a processor's cache."""
_FINAL = ".!?… "


def strip_final_punctuation(sentence: str) -> str:
    """The sentence with single spaces and without final punctuation, unless it is nothing else."""
    text = " ".join(sentence.split())
    return text.rstrip(_FINAL) or text


def centroid_cosines(
    vectors: NDArray[np.float32], candidates: NDArray[np.int64], references: Ragged
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The cosine of each candidate with the mean of its references' unit vectors, and the length of that mean, (n,).

    Args:
        vectors: unit vectors (sentences, width).
        candidates: indices of sentences (n,).
        references: indices of sentences, by caption.
    """
    reference_counts = references.lengths.astype(np.float32)
    centroid = np.add.reduceat(vectors[references.values], references.offsets[:-1], axis=0) / reference_counts[:, None]
    centroid_norms = np.linalg.norm(centroid, axis=1)
    return np.einsum("nd,nd->n", vectors[candidates], centroid) / np.maximum(centroid_norms, 1e-6), centroid_norms


@dataclass(frozen=True, eq=False)
class SentenceEncodings:
    """Word-piece states of some sentences, and their unit vectors (sentences, width).

    larger_pieces: the word pieces of a larger encoder, if there is one.
    """

    table: StateTable
    vectors: NDArray[np.float32]
    larger_pieces: PieceTable | None = None

    @classmethod
    def encode(
        cls,
        sentences: Sequence[str],
        encoder: EncoderHandle,
        layer: int,
        settings: Settings,
        larger: EncoderHandle | None = None,
    ) -> SentenceEncodings:
        """The encodings of these sentences by a layer of an encoder, and the word pieces of a larger one.

        Args:
            sentences: distinct sentences.
            encoder, layer: what the matcher reads.
            settings: where it runs.
            larger: a larger encoder, of which only word pieces are needed.
        """
        pool = SentencePool(tuple(sentences))
        return cls(
            pool.analyse(HiddenStates(encoder, layer, settings)),
            pool.analyse(SentenceVectors(encoder, layer, settings)),
            None if larger is None else load_encoder(larger, settings).pieces(pool.sentences),
        )

    def similarities(self, candidates: NDArray[np.int64], references: Ragged) -> NDArray[np.float32]:
        """g, (n, 4): the largest and the mean cosine with a reference, the cosine with the references' mean vector, and
        the length of that mean, which is large if references agree.
        """
        reference_starts = references.offsets[:-1]
        reference_vectors = self.vectors[references.values]
        reference_cosines = np.einsum("nd,nd->n", self.vectors[candidates][references.rows], reference_vectors)
        to_centroid, centroid_norms = centroid_cosines(self.vectors, candidates, references)
        mean_cosine = np.add.reduceat(reference_cosines, reference_starts) / references.lengths.astype(np.float32)
        return np.stack(
            [np.maximum.reduceat(reference_cosines, reference_starts), mean_cosine, to_centroid, centroid_norms], axis=1
        ).astype(np.float32)

    def blocks(self, candidates: NDArray[np.int64], references: Ragged) -> Iterator[Block]:
        """Captions in blocks of bounded memory; candidates and references as indices of the sentences."""
        similarities = self.similarities(candidates, references)
        for rows, pieces, reference_pieces in piece_blocks(candidates, self.table, references):
            yield rows, pieces, reference_pieces, similarities[rows]


def piece_blocks(
    candidates: NDArray[np.int64], table: StateTable, references: Ragged
) -> Iterator[tuple[NDArray[np.int64], Pieces, Pieces]]:
    """Captions in blocks of bounded memory: rows, candidates, references without begin and end.

    Args:
        candidates: indices of sentences (n,).
        table: the sentences' states.
        references: indices of sentences, by caption.
    """
    return caption_blocks(candidates, table, references, ends=False, floats=BLOCK_FLOATS)
