"""The training examples of the metric `capmeter`: photos with their captions, and perturbed captions.

The matcher's encoder is frozen: every sentence is encoded once. The tagger's encoder is adapted in training.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from capmeter.core.errors import InputError
from capmeter.core.settings import Settings
from capmeter.encoders import Encoder, EncoderHandle, PieceTable, load_encoder
from capmeter.metrics.own.inputs import PieceFeatures, SentenceEncodings, TokenPriors, strip_final_punctuation
from capmeter.metrics.own.words import word_indices
from capmeter_research.common.corpus import CAPTIONS_PER_PHOTO, Photo
from capmeter_research.common.similar_photos import mean_directions
from capmeter_research.networks.own_metric.perturbations import (
    KINDS,
    Perturbation,
    build_caption_set,
    perturb_captions,
    substitute_one_word,
)

SHARED_WORD_CAPTIONS = 2
"""Captions per training photo with perturbations of one word for both networks; those of the others, and as many of
photos for the tagger alone, are for the tagger alone."""
Rows = NDArray[np.int64]
_Captions = Sequence[tuple[str, Sequence[str]]]  # by photo


@dataclass(frozen=True)
class PerturbedCaption:
    """A perturbation of one of a photo's captions."""

    kind: str  # of the perturbation
    sentence: int  # index of the perturbed caption
    omitted: float  # share of the caption's words that are missing from it
    wrong_words: tuple[int, ...]  # indices of its wrong words, if they are known


@dataclass(frozen=True)
class WordExample:
    """A caption, by its photo and its index among the photo's captions, and perturbations of one word of it."""

    photo: int
    caption: int
    perturbations: tuple[PerturbedCaption, ...]


@dataclass(frozen=True, eq=False)
class PhotoExamples:
    """Photos with their captions and perturbed captions."""

    sentences: tuple[str, ...]  # all captions and perturbed captions; the first `encoded_count` are the matcher's
    # (photos, 5), sentence indices; first the training photos, then the held-out ones, then those for the tagger alone
    captions: Rows
    perturbed: tuple[tuple[PerturbedCaption, ...], ...]  # of the first caption of each training and held-out photo
    word_examples: tuple[WordExample, ...]  # captions of training photos, for both networks
    tagger_examples: tuple[WordExample, ...]  # more captions, for the tagger alone
    encoded_count: int  # number of sentences for the matcher
    train_count: int  # number of training photos
    matcher_count: int  # number of training and held-out photos
    priors: TokenPriors  # statistics of word pieces
    encoder: EncoderHandle  # of both networks
    layer: int  # the encoder layer of the matcher
    settings: Settings  # of the encoder
    _word_indices: dict[int, Rows | None] = field(default_factory=dict)

    @cached_property
    def _loaded(self) -> Encoder:
        return load_encoder(self.encoder, self.settings)

    @cached_property
    def pieces(self) -> PieceTable:
        """The sentences' word pieces."""
        return self._loaded.pieces(self.sentences)

    @cached_property
    def encodings(self) -> SentenceEncodings:
        """The hidden states and embeddings of the matcher's sentences."""
        sentences = self.sentences[: self.encoded_count]
        return SentenceEncodings.encode(sentences, self.encoder, self.layer, self.settings)

    @cached_property
    def piece_features(self) -> PieceFeatures:
        """Static features of word pieces."""
        return self.priors.piece_features(self._loaded)

    def word_indices(self, sentence: int) -> Rows | None:
        """The word (pieces) of each word piece of a sentence; None if it is unknown."""
        if sentence not in self._word_indices:
            indices = word_indices(self._loaded, self.sentences[sentence], len(self.pieces[sentence]) - 2)
            self._word_indices[sentence] = None if indices is None else np.array(indices, np.int64)
        return self._word_indices[sentence]

    def photo_embeddings(self) -> NDArray[np.float32]:
        """The direction (photos, dim) of the mean embedding of each training photo's captions."""
        return mean_directions(self.encodings.vectors, self.captions[: self.train_count])


class _SentenceIndex:
    """Numbers sentences in the order of their first occurrence, without final punctuation."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def add(self, text: str) -> int:
        return self.numbers.setdefault(strip_final_punctuation(text), len(self.numbers))

    def add_captions(self, photos: _Captions) -> Rows:
        sentence_indices = [[self.add(caption) for caption in captions] for _, captions in photos]
        return np.array(sentence_indices, np.int64).reshape(-1, CAPTIONS_PER_PHOTO)

    def add_perturbations(self, perturbations: Iterable[Perturbation]) -> dict[int, tuple[PerturbedCaption, ...]]:
        """The perturbations by row."""
        by_row: dict[int, list[PerturbedCaption]] = {}
        for perturbation in perturbations:
            perturbed_caption = PerturbedCaption(
                perturbation.kind, self.add(perturbation.text), perturbation.omitted, perturbation.wrong_words
            )
            by_row.setdefault(perturbation.row, []).append(perturbed_caption)
        return {row: tuple(group) for row, group in by_row.items()}

    def add_word_examples(
        self, photos: _Captions, captions: Iterable[int], seed: int, first_photo: int = 0
    ) -> list[WordExample]:
        """Perturbations of one word of the captions with these indices, of all photos."""
        word_examples: list[WordExample] = []
        for caption_index in captions if photos else ():
            candidate_set = build_caption_set(photos, caption_index)
            perturbations = substitute_one_word(candidate_set, range(len(photos)), seed=seed + caption_index)
            by_row = self.add_perturbations(perturbations)
            word_examples += [WordExample(first_photo + row, caption_index, group) for row, group in by_row.items()]
        return word_examples


def build_examples(
    train: Sequence[Photo],
    held_out: Sequence[Photo],
    tagger_photos: Sequence[Photo] = (),
    *,
    priors: TokenPriors,
    encoder: EncoderHandle,
    layer: int,
    perturbations: int,
    seed: int,
    settings: Settings,
) -> PhotoExamples:
    """Perturbs the captions of photos.

    Args:
        train: training photos, with at least five captions each, as all photos.
        held_out: their first captions are perturbed in all ways.
        tagger_photos: training photos for the tagger alone.
        priors, encoder, layer, settings: see `PhotoExamples`.
        perturbations: maximum number for each training photo.
        seed: of the perturbations.

    Raises:
        InputError: no caption has a word that can be substituted.
    """
    matcher_captions, tagger_captions = (
        [(photo.source + photo.number, photo.captions[:CAPTIONS_PER_PHOTO]) for photo in photos]
        for photos in ((*train, *held_out), tagger_photos)
    )
    index, candidate_set = _SentenceIndex(), build_caption_set(matcher_captions)
    captions = index.add_captions(matcher_captions)
    train_count, matcher_count = len(train), len(matcher_captions)
    perturbed_captions: dict[int, tuple[PerturbedCaption, ...]] = {}
    for rows, count in ((range(train_count), perturbations), (range(train_count, matcher_count), len(KINDS))):
        perturbed_captions |= index.add_perturbations(
            perturb_captions(candidate_set, rows, per_caption=count, seed=seed)
        )
    train_captions, shared_captions = matcher_captions[:train_count], range(SHARED_WORD_CAPTIONS)
    word_examples = index.add_word_examples(train_captions, shared_captions, seed)
    encoded_count = len(index.numbers)
    tagger_examples = index.add_word_examples(train_captions, range(SHARED_WORD_CAPTIONS, CAPTIONS_PER_PHOTO), seed)
    captions = np.concatenate([captions, index.add_captions(tagger_captions)])
    tagger_examples += index.add_word_examples(tagger_captions, shared_captions, seed, matcher_count)
    if not word_examples:
        raise InputError("expected captions with a word that can be substituted, but got none")
    return PhotoExamples(
        tuple(index.numbers),
        captions,
        tuple(perturbed_captions.get(row, ()) for row in range(matcher_count)),
        tuple(word_examples),
        tuple(tagger_examples),
        encoded_count,
        train_count,
        matcher_count,
        priors,
        encoder,
        layer,
        settings,
    )
