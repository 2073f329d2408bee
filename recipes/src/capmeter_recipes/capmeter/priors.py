"""Statistics of word pieces, estimated on captions that the networks are not trained on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from capmeter.core.progress import report_progress
from capmeter.core.settings import Settings
from capmeter.encoders import EncoderHandle, load_encoder
from capmeter.metrics.learned.capmeter.associations import Associations
from capmeter.metrics.learned.capmeter.inputs import strip_final_punctuation
from capmeter.metrics.learned.capmeter.language_model import LanguageModel
from capmeter.metrics.learned.capmeter.lexicon import Lexicon
from capmeter.metrics.learned.capmeter.token_priors import TokenPriors
from capmeter.transforms.perturbations import SentenceWords, strip_punctuation
from capmeter.transforms.tagged_words import tag_words
from capmeter_recipes.common.corpus import CAPTIONS_PER_PHOTO, Photo, PhotoCorpus

MIN_COUNT = 3
"""Minimum number of occurrences, of bigrams and trigrams in the language model and of words in the lexicon."""
_SENTENCES_PER_CALL = 8192


def build_token_priors(
    corpora: Sequence[PhotoCorpus],
    train: Sequence[Photo],
    encoder: EncoderHandle,
    settings: Settings,
    *,
    min_count: int = MIN_COUNT,
) -> TokenPriors:
    """Estimates the statistics on all captions of photos that are neither held out nor training photos.

    Training captions should be as new to these counts as those that the metric will score; of a small corpus no
    photos may be left, and the training photos serve, which is reported. The nouns of the lexicon are estimated on the
    tags of the training photos' captions.
    """
    loaded = load_encoder(encoder, settings)
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
    rows = [
        np.array(ids, np.int32)
        for start in range(0, len(sentences), _SENTENCES_PER_CALL)
        for ids in loaded.tokenizer.ids(sentences[start : start + _SENTENCES_PER_CALL])
    ]
    size = len(loaded.tokenizer)
    language_model = LanguageModel.estimate(rows, size, min_count)
    associations = Associations.estimate([row[1:-1] for row in rows], photo_numbers, size)
    return TokenPriors(language_model, _estimate_lexicon(train, language_model, encoder, settings), associations)


def _estimate_lexicon(
    photos: Sequence[Photo], language_model: LanguageModel, encoder: EncoderHandle, settings: Settings
) -> Lexicon:
    """Static embeddings of word pieces, and the share of their occurrences in nouns in the photos' captions."""
    loaded = load_encoder(encoder, settings)
    sentences = [strip_final_punctuation(text) for photo in photos for text in photo.captions[:CAPTIONS_PER_PHOTO]]
    nouns: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    for sentence, tags in zip(sentences, tag_words(sentences), strict=True):
        for word, tag in zip(map(strip_punctuation, SentenceWords.of(sentence).core), tags, strict=True):
            totals[word] += 1
            nouns[word] += tag.startswith("NN")
    counts = np.zeros((2, len(loaded.tokenizer)))
    words = [word for word in totals if word]
    for word, ids in zip(words, loaded.tokenizer.ids(words), strict=True):
        for piece in ids[1:-1]:
            counts[:, piece] += nouns[word], totals[word]
    noun_shares = np.where(counts[1] >= MIN_COUNT, counts[0] / np.maximum(counts[1], 1), 0.0)
    unigram_counts = language_model.unigram_counts.copy()
    unigram_counts[[loaded.begin_id, loaded.end_id]] = 0
    return Lexicon.estimate(loaded.embeddings(), unigram_counts, noun_shares)
