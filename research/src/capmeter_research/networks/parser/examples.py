"""Training sentences of the caption parser as arrays of ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from capmeter.text.parsing.caption_parser import FIRST_FEATURE_ID, ParserVocabulary, word_features
from capmeter.text.parsing.dependency_parse import Parse
from capmeter_research.common.parsed_captions import ParsedCaption

MAX_LENGTH = 60
"""Longer sentences are not trained on."""
_WORD_FEATURES = ("w:", "c:")  # prefixes of the features that are words


def collect_sentences(captions: Iterable[ParsedCaption]) -> list[Parse]:
    """Every sentence of the captions."""
    return [sentence for caption in captions for sentence in caption.parse.sentences]


def learn_vocabulary(parses: Sequence[Parse]) -> tuple[ParserVocabulary, npt.NDArray[np.float32]]:
    """The features that get a vector, and for each the probability that it is hidden in training (high for rare words).

    Words need two occurrences, other features three words or twenty tokens.

    Returns:
        The vocabulary, and the probabilities (feature ids).
    """
    word_counts = Counter(word for parse in parses for word in parse.words)
    token_counts: Counter[str] = Counter()
    type_counts: Counter[str] = Counter()
    for word, count in word_counts.items():
        for feature in word_features(word):
            token_counts[feature] += count
            type_counts[feature] += 1
    features = [
        feature_name
        for feature_name, count in token_counts.items()
        if (count >= 2 if feature_name.startswith(_WORD_FEATURES) else type_counts[feature_name] >= 3 or count >= 20)
    ]
    vocabulary = ParserVocabulary(
        {feature_name: feature_id for feature_id, feature_name in enumerate(features, start=FIRST_FEATURE_ID)},
        sorted({tag for parse in parses for tag in parse.tags}),
        sorted({label for parse in parses for label in parse.labels}),
    )
    hiding_probabilities = [
        1 / (1 + 2 * token_counts[feature_name]) if feature_name.startswith(_WORD_FEATURES) else 0.0
        for feature_name in features
    ]
    return vocabulary, np.array([0.0, 0.0, *hiding_probabilities], np.float32)


@dataclass(frozen=True, eq=False)
class PackedSentences:
    """Sentences of one length as ids."""

    features: npt.NDArray[np.int32]  # (sentences, length, features per word)
    tags: npt.NDArray[np.int64]  # (sentences, length)
    heads: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.features)


def pack_sentences(parses: Iterable[Parse], vocabulary: ParserVocabulary) -> dict[int, PackedSentences]:
    """The sentences by length, without those over `MAX_LENGTH`; unknown tags and labels have id 0."""
    tag_ids = {tag: tag_id for tag_id, tag in enumerate(vocabulary.tags)}
    label_ids = {label: label_id for label_id, label in enumerate(vocabulary.labels)}
    by_length: dict[int, list[Parse]] = {}
    for parse in parses:
        if len(parse) <= MAX_LENGTH:
            by_length.setdefault(len(parse), []).append(parse)
    return {
        length: PackedSentences(
            np.array([[vocabulary.row(word) for word in parse.words] for parse in group], np.int32),
            np.array([[tag_ids.get(tag, 0) for tag in parse.tags] for parse in group], np.int64),
            np.array([parse.heads for parse in group], np.int64),
            np.array([[label_ids.get(label, 0) for label in parse.labels] for parse in group], np.int64),
        )
        for length, group in sorted(by_length.items())
    }
