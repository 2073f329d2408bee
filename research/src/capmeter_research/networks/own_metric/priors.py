"""Statistics of word pieces, estimated on captions that the networks are not trained on.

>>> captions = [[5, 6], [7, 6], [8, 9], [8, 9]] * 20  # of photos 0, 0, 1, 1, 2, 2 ...
>>> captions = [np.array(ids, np.int32) for ids in captions]
>>> associations = estimate_associations(captions, np.arange(80) // 2, size=10, min_captions=9, dim=4)
>>> x = associations.vectors(10)
>>> ((x[[5, 5, 8]] * associations.signs) @ x[[7, 8, 9]].T).round(1).diagonal()  # 5 and 7, 5 and 8, 8 and 9
array([1.1, 0. , 0.6], dtype=float32)

>>> captions = [np.array(ids, np.int32) for ids in ([0, 2, 3, 1], [0, 2, 4, 1], [0, 2, 3, 1])]
>>> model = estimate_language_model(captions, size=5, min_count=1)
>>> model.log_bigram(np.array([2, 2, 3]), np.array([3, 4, 4])).round(2)
array([-1.43, -1.93, -2.24], dtype=float32)
>>> model.log_trigram(np.array([0]), np.array([2]), np.array([3])).round(2)
array([-0.79], dtype=float32)

>>> embeddings = np.array([[0, 1], [0, -1], [0.2, 1], [9, 9]], np.float32)
>>> lexicon = estimate_lexicon(embeddings, counts=np.array([4, 4, 1, 0]), noun_shares=np.zeros(4), dim=1)
>>> v = lexicon.static_embeddings(embeddings)[:, 0]
>>> np.abs(v - v[0]).tolist()
[0.0, 2.0, 0.0, 0.0]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capmeter.core.progress import report_progress
from capmeter.core.settings import Settings
from capmeter.encoders import EncoderHandle, load_encoder
from capmeter.metrics.own.inputs import (
    ASSOCIATION_DIM,
    ASSOCIATION_NAMES,
    BIGRAMS,
    LARGEST_BYTE,
    LEXICON_NAMES,
    OVERFLOW,
    STATIC_DIM,
    TRIGRAMS,
    UNIGRAMS,
    Associations,
    Floats32,
    Keys,
    LanguageModel,
    Lexicon,
    TokenPriors,
    strip_final_punctuation,
)
from capmeter.transforms.perturbations import SentenceWords, strip_punctuation
from capmeter_research.common.corpus import CAPTIONS_PER_PHOTO, Photo, PhotoCorpus
from capmeter_research.common.keywords import tag_words

MIN_COUNT = 3
"""Minimum number of occurrences, of bigrams and trigrams in the language model and of words in the lexicon."""
_SENTENCES_PER_CALL = 8192

MIN_CAPTIONS = 50
"""Number of captions that contain a word piece, for it to have associations."""
_SMOOTHING, _FREQUENCY_POWER = 3.0, 0.5
_LEVELS = 127
CaptionCounts = tuple[Counter[int], Counter[int]]
"""Counts of bigrams and trigrams, by key, in captions to be subtracted."""


def priors_arrays(priors: TokenPriors) -> dict[str, NDArray[Any]]:
    """The arrays of the priors under their names in checkpoints."""
    language_arrays = language_model_arrays(priors.language_model)
    return {**language_arrays, **lexicon_arrays(priors.lexicon), **association_arrays(priors.associations)}


def language_model_arrays(model: LanguageModel) -> dict[str, NDArray[Any]]:
    """The arrays of a language model under their names in checkpoints, compressed.

    Number of bigrams that start with each piece, and of trigrams that start with each bigram; their last pieces; their
    counts, of which those of 255 and more are stored apart, in order. A trigram's first two pieces are a bigram of the
    model, as it is not rarer.
    """
    vocabulary_size = len(model.unigram_counts)
    bigrams_of = np.bincount(model.bigrams // vocabulary_size, minlength=vocabulary_size)
    trigrams_of = np.bincount(
        np.searchsorted(model.bigrams, model.trigrams // vocabulary_size), minlength=len(model.bigrams)
    )
    arrays: dict[str, NDArray[Any]] = {UNIGRAMS: model.unigram_counts}
    for (starts_name, ends_name, counts_name), starts, keys, counts in (
        (BIGRAMS, bigrams_of, model.bigrams, model.bigram_counts),
        (TRIGRAMS, trigrams_of, model.trigrams, model.trigram_counts),
    ):
        arrays |= {starts_name: starts, ends_name: keys % vocabulary_size}
        arrays |= {
            counts_name: np.minimum(counts, LARGEST_BYTE),
            counts_name + OVERFLOW: counts[counts >= LARGEST_BYTE],
        }
    return {name: array.astype(np.min_scalar_type(int(array.max(initial=0)))) for name, array in arrays.items()}


def lexicon_arrays(lexicon: Lexicon) -> dict[str, NDArray[Any]]:
    """The arrays of a lexicon under their names in checkpoints."""
    arrays = lexicon.mean, lexicon.basis, lexicon.noun_shares.astype(np.float16)
    return dict(zip(LEXICON_NAMES, arrays, strict=True))


def association_arrays(associations: Associations) -> dict[str, NDArray[Any]]:
    """The arrays of associations under their names in checkpoints."""
    arrays = associations.pieces, associations.levels, associations.steps, associations.signs
    return dict(zip(ASSOCIATION_NAMES, arrays, strict=True))


def build_token_priors(
    corpora: Sequence[PhotoCorpus], train: Sequence[Photo], encoder: EncoderHandle, settings: Settings
) -> TokenPriors:
    """Estimates the statistics on all captions of photos that are neither held out nor training photos.

    Training captions should be as new to these counts as those that the metric will score; of a small corpus no
    photos may be left, and the training photos serve, which is reported. The nouns of the lexicon are estimated on the
    tags of the training photos' captions.

    Args:
        corpora: captions of photos.
        train: the training photos.
        encoder: whose word pieces are counted.
        settings: where the encoder runs.
    """
    loaded_encoder = load_encoder(encoder, settings)
    train_ids = {photo.id for photo in train}
    photos = [
        photo for corpus in corpora for photo in corpus.photos if not photo.held_out and photo.id not in train_ids
    ]
    if not photos:
        report_progress(
            f"no photos are left beside the {len(train):,} training photos: statistics of words are estimated on these"
        )
        photos = list(train)
    sentences = [strip_final_punctuation(text) for photo in photos for text in photo.captions]
    photo_numbers = np.repeat(np.arange(len(photos)), [len(photo.captions) for photo in photos])
    piece_rows = [
        np.array(ids, np.int32)
        for batch_start in range(0, len(sentences), _SENTENCES_PER_CALL)
        for ids in loaded_encoder.tokenizer.ids(sentences[batch_start : batch_start + _SENTENCES_PER_CALL])
    ]
    vocabulary_size = len(loaded_encoder.tokenizer)
    language_model = estimate_language_model(piece_rows, vocabulary_size, MIN_COUNT)
    associations = estimate_associations([row[1:-1] for row in piece_rows], photo_numbers, vocabulary_size)
    return TokenPriors(language_model, _estimate_lexicon(train, language_model, encoder, settings), associations)


def _estimate_lexicon(
    photos: Sequence[Photo], language_model: LanguageModel, encoder: EncoderHandle, settings: Settings
) -> Lexicon:
    """Static embeddings of word pieces, and the share of their occurrences in nouns in the photos' captions."""
    loaded_encoder = load_encoder(encoder, settings)
    sentences = [strip_final_punctuation(text) for photo in photos for text in photo.captions[:CAPTIONS_PER_PHOTO]]
    noun_counts: Counter[str] = Counter()
    word_counts: Counter[str] = Counter()
    for sentence, tags in zip(sentences, tag_words(sentences), strict=True):
        for word, tag in zip(map(strip_punctuation, SentenceWords.split(sentence).core), tags, strict=True):
            word_counts[word] += 1
            noun_counts[word] += tag.startswith("NN")
    piece_counts = np.zeros((2, len(loaded_encoder.tokenizer)))
    words = [word for word in word_counts if word]
    for word, piece_ids in zip(words, loaded_encoder.tokenizer.ids(words), strict=True):
        for piece in piece_ids[1:-1]:
            piece_counts[:, piece] += noun_counts[word], word_counts[word]
    noun_shares = np.where(piece_counts[1] >= MIN_COUNT, piece_counts[0] / np.maximum(piece_counts[1], 1), 0.0)
    unigram_counts = language_model.unigram_counts.copy()
    unigram_counts[[loaded_encoder.begin_id, loaded_encoder.end_id]] = 0
    return estimate_lexicon(loaded_encoder.embeddings(), unigram_counts, noun_shares)


def estimate_associations(
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
    contains = csr_array((np.ones(len(piece_ids), np.float32), (caption_rows, piece_ids)), shape=(len(captions), size))
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
    return Associations(frequent_pieces.astype(np.int32), levels, steps.astype(np.float32), signs)


def estimate_language_model(captions: Iterable[NDArray[np.int32]], size: int, min_count: int) -> LanguageModel:
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

    bigrams, trigrams = (frequent([keys(ids, size) for ids in caption_ids]) for keys in (_bigram_keys, _trigram_keys))
    return LanguageModel(*bigrams, *trigrams, unigram_counts.astype(np.int32))


def count_captions(model: LanguageModel, captions: Iterable[NDArray[np.int32]]) -> CaptionCounts:
    """The counts of these captions, as `HeldOutLanguageModel` subtracts them."""
    vocabulary_size, caption_ids = len(model.unigram_counts), [ids.astype(np.int64) for ids in captions]
    bigrams, trigrams = (
        Counter(key for ids in caption_ids for key in keys(ids, vocabulary_size).tolist())
        for keys in (_bigram_keys, _trigram_keys)
    )
    return bigrams, trigrams


@dataclass(frozen=True, eq=False)
class HeldOutLanguageModel(LanguageModel):
    """A language model as if some captions, others in each row, had not been counted in training.

    row_counts: of each row the counts to subtract; None: nothing.
    """

    row_counts: Sequence[CaptionCounts | None] = ()

    @classmethod
    def hold_out(cls, model: LanguageModel, row_counts: Sequence[CaptionCounts | None]) -> HeldOutLanguageModel:
        """The model without these counts."""
        counts = {each.name: getattr(model, each.name) for each in fields(model)}
        return cls(**counts, row_counts=row_counts)

    def count_bigrams(self, keys: Keys) -> NDArray[Any]:
        """The count of each of these bigrams without those of its row."""
        return _subtract(self.row_counts, 0, keys, super().count_bigrams(keys), self.bigram_counts)

    def count_trigrams(self, keys: Keys) -> NDArray[Any]:
        """The count of each of these trigrams without those of its row."""
        return _subtract(self.row_counts, 1, keys, super().count_trigrams(keys), self.trigram_counts)


def estimate_lexicon(
    embeddings: Floats32, counts: NDArray[Any], noun_shares: NDArray[Any], dim: int = STATIC_DIM
) -> Lexicon:
    """The lexicon of input embeddings.

    Args:
        embeddings: of the word pieces, (pieces, width).
        counts: of the pieces in captions, (pieces,).
        noun_shares: how often each is a noun, 0 to 1, (pieces,).
        dim: width of the static embeddings.
    """
    piece_weights = np.sqrt(counts.astype(np.float64))
    piece_weights /= piece_weights.sum()
    mean = piece_weights @ embeddings
    centred_embeddings = embeddings - mean
    _, directions = np.linalg.eigh((centred_embeddings * piece_weights[:, None]).T @ centred_embeddings)
    basis = directions[:, ::-1][:, :dim]
    rounded_shares = noun_shares.astype(np.float16).astype(np.float32)  # the precision of checkpoints
    return Lexicon(mean.astype(np.float32), basis.astype(np.float32), rounded_shares)


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
    remaining_counts, min_count = counts.copy(), int(model_counts.min(initial=np.iinfo(np.uint8).max))
    for row, row_counts in enumerate(caption_counts):
        if row_counts is not None:
            remaining_counts[row] -= [row_counts[order_index][key] for key in keys[row].tolist()]
    return np.where(remaining_counts >= min_count, remaining_counts, 0)
