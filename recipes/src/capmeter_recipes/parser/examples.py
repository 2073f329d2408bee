"""Training sentences of the caption parser as arrays of ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from capmeter.text.parsing.dependency_parse import Parse
from capmeter.text.parsing.parser_vocabulary import FIRST_FEATURE_ID, ParserVocabulary, word_features
from capmeter_recipes.common.parsed_captions import ParsedCaption

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
    words = Counter(word for parse in parses for word in parse.words)
    tokens: Counter[str] = Counter()
    types: Counter[str] = Counter()
    for word, count in words.items():
        for feature in word_features(word):
            tokens[feature] += count
            types[feature] += 1
    features = [
        name
        for name, count in tokens.items()
        if (count >= 2 if name.startswith(_WORD_FEATURES) else types[name] >= 3 or count >= 20)
    ]
    vocabulary = ParserVocabulary(
        {name: number for number, name in enumerate(features, start=FIRST_FEATURE_ID)},
        sorted({tag for parse in parses for tag in parse.tags}),
        sorted({label for parse in parses for label in parse.labels}),
    )
    hiding = [1 / (1 + 2 * tokens[name]) if name.startswith(_WORD_FEATURES) else 0.0 for name in features]
    return vocabulary, np.array([0.0, 0.0, *hiding], np.float32)


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
    tags = {tag: number for number, tag in enumerate(vocabulary.tags)}
    labels = {label: number for number, label in enumerate(vocabulary.labels)}
    by_length: dict[int, list[Parse]] = {}
    for parse in parses:
        if len(parse) <= MAX_LENGTH:
            by_length.setdefault(len(parse), []).append(parse)
    return {
        length: PackedSentences(
            np.array([[vocabulary.row(word) for word in parse.words] for parse in group], np.int32),
            np.array([[tags.get(tag, 0) for tag in parse.tags] for parse in group], np.int64),
            np.array([parse.heads for parse in group], np.int64),
            np.array([[labels.get(label, 0) for label in parse.labels] for parse in group], np.int64),
        )
        for length, group in sorted(by_length.items())
    }
