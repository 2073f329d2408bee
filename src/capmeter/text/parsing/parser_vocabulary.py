"""The parser's view of a word: the word itself, its shape, its beginning and its ending.

A word's features are texts such as "w:dogs" (lower case), "c:Dogs" (as written, if different), "h:Xx" (shape), "s3:ogs"
(ending), "p2:do" (beginning). Features that are frequent enough in training have an id; the embedding of a word is the
sum of its features' embeddings. Id 0 is padding, id 1 an unknown word.

>>> word_features("Dogs")[:3]
['w:dogs', 'h:Xx', 'c:Dogs']
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

PAD_ID, UNKNOWN_ID, FIRST_FEATURE_ID = 0, 1, 2
MAX_FEATURES = 11
_ENDINGS, _BEGINNINGS = (1, 2, 3, 4, 5), (1, 2, 3)
_LETTERS, _DIGITS = re.compile(r"[^\W\d_]+"), re.compile(r"\d+")
_MAX_LETTERS = 60  # anything longer is not a word; its middle is ignored


def _shape(letter_match: re.Match[str]) -> str:
    letter_run = letter_match[0]
    if letter_run.isupper():
        return "X"
    if letter_run.islower():
        return "x"
    return "Xx" if letter_run[0].isupper() else "xX"


def word_features(word: str) -> list[str]:
    """Returns the features of a word, at most `MAX_FEATURES`, the lower-cased word first."""
    if len(word) > _MAX_LETTERS:
        word = word[: _MAX_LETTERS // 2] + word[-_MAX_LETTERS // 2 :]
    lower_word = word.lower()
    features = [f"w:{lower_word}", f"h:{_DIGITS.sub('d', _LETTERS.sub(_shape, word))}"]
    if lower_word != word:
        features.append(f"c:{word}")
    features += [f"s{size}:{lower_word[-size:]}" for size in _ENDINGS if len(lower_word) >= size]
    features += [f"p{size}:{lower_word[:size]}" for size in _BEGINNINGS if len(lower_word) >= size]
    return features


class ParserVocabulary:
    """Feature ids of words, and the parser's tags and labels.

    Args:
        features: the id of each feature.
        tags: part-of-speech tags, in the order of their scores.
        labels: relations, in the order of their scores.
    """

    def __init__(self, features: Mapping[str, int], tags: Sequence[str], labels: Sequence[str]) -> None:
        self.features, self.tags, self.labels = features, tuple(tags), tuple(labels)
        self.row = lru_cache(maxsize=1 << 16)(self._look_up)

    def _look_up(self, word: str) -> list[int]:
        """Returns the feature ids of a word, `MAX_FEATURES` of them, padded with `PAD_ID`."""
        feature_ids = [self.features.get(word_feature, PAD_ID) for word_feature in word_features(word)]
        return [feature_ids[0] or UNKNOWN_ID, *feature_ids[1:], *[PAD_ID] * (MAX_FEATURES - len(feature_ids))]

    def rows(self, words: Sequence[str]) -> npt.NDArray[np.int64]:
        """Returns the feature ids of words (words, MAX_FEATURES)."""
        return np.array([self.row(word) for word in words], np.int64).reshape(len(words), MAX_FEATURES)

    def knows(self, word: str) -> bool:
        """Whether this word occurred in training, in any case."""
        return self.row(word)[0] != UNKNOWN_ID
