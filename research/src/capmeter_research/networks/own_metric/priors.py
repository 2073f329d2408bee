"""Statistics of word pieces, estimated on captions that the networks are not trained on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from capmeter.core.progress import report_progress
from capmeter.core.settings import Settings
from capmeter.encoders import EncoderHandle, load_encoder
from capmeter.metrics.own.inputs import strip_final_punctuation
from capmeter.metrics.own.token_priors import Associations, LanguageModel, Lexicon, TokenPriors
from capmeter.transforms.perturbations import SentenceWords, strip_punctuation
from capmeter_research.common.corpus import CAPTIONS_PER_PHOTO, Photo, PhotoCorpus
from capmeter_research.common.keywords import tag_words

MIN_COUNT = 3
"""Minimum number of occurrences, of bigrams and trigrams in the language model and of words in the lexicon."""
_SENTENCES_PER_CALL = 8192


def build_token_priors(
    corpora: Sequence[PhotoCorpus],
    train: Sequence[Photo],
    encoder: EncoderHandle,
    settings: Settings,
) -> TokenPriors:
    """Estimates the statistics on all captions of photos that are neither held out nor training photos.

    Training captions should be as new to these counts as those that the metric will score; of a small corpus no
    photos may be left, and the training photos serve, which is reported. The nouns of the lexicon are estimated on the
    tags of the training photos' captions.
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
    language_model = LanguageModel.estimate(piece_rows, vocabulary_size, MIN_COUNT)
    associations = Associations.estimate([row[1:-1] for row in piece_rows], photo_numbers, vocabulary_size)
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
        for word, tag in zip(map(strip_punctuation, SentenceWords.of(sentence).core), tags, strict=True):
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
    return Lexicon.estimate(loaded_encoder.embeddings(), unigram_counts, noun_shares)
