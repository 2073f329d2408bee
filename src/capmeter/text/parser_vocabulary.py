"""What the caption parser sees of a word: the word itself, its shape, its beginning and its end.

A word's features are texts such as "w:dogs" (lower case), "c:Dogs" (as written, where that differs), "h:Xx" (shape),
"s3:ogs" (ending), "p2:do" (beginning). Features that are frequent enough in training have a number; the vector of a
word is the sum of its features' vectors. Number 0 means no feature, number 1 an unknown word.

>>> word_features("Dogs")[:3]
['w:dogs', 'h:Xx', 'c:Dogs']
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

NOTHING, UNKNOWN, FIRST_FEATURE = 0, 1, 2
MOST_FEATURES = 11
_ENDINGS, _BEGINNINGS = (1, 2, 3, 4, 5), (1, 2, 3)
_LETTERS, _DIGITS = re.compile(r"[^\W\d_]+"), re.compile(r"\d+")
_LONGEST = 60  # anything longer is not a word; its middle is ignored


def _shape(letters: re.Match[str]) -> str:
    run = letters[0]
    if run.isupper():
        return "X"
    if run.islower():
        return "x"
    return "Xx" if run[0].isupper() else "xX"


def word_features(word: str) -> list[str]:
    """The features of a word, at most `MOST_FEATURES`, the lower-cased word first."""
    if len(word) > _LONGEST:
        word = word[: _LONGEST // 2] + word[-_LONGEST // 2 :]
    lower = word.lower()
    features = [f"w:{lower}", f"h:{_DIGITS.sub('d', _LETTERS.sub(_shape, word))}"]
    if lower != word:
        features.append(f"c:{word}")
    features += [f"s{size}:{lower[-size:]}" for size in _ENDINGS if len(lower) >= size]
    features += [f"p{size}:{lower[:size]}" for size in _BEGINNINGS if len(lower) >= size]
    return features


class ParserVocabulary:
    """The numbers of features, and the parser's tags and labels, in the order of their scores."""

    def __init__(self, features: Mapping[str, int], tags: Sequence[str], labels: Sequence[str]) -> None:
        self.features, self.tags, self.labels = features, tuple(tags), tuple(labels)
        self._rows: dict[str, list[int]] = {}

    def row(self, word: str) -> list[int]:
        """The numbers of a word's features, `MOST_FEATURES` of them, padded with `NOTHING`."""
        row = self._rows.get(word)
        if row is None:
            numbers = [self.features.get(each, NOTHING) for each in word_features(word)]
            row = [numbers[0] or UNKNOWN, *numbers[1:]]
            row += [NOTHING] * (MOST_FEATURES - len(row))
            if len(self._rows) < 1 << 16:
                self._rows[word] = row
        return row

    def rows(self, words: Sequence[str]) -> npt.NDArray[np.int64]:
        """The rows of several words, shape [words, MOST_FEATURES]."""
        return np.array([self.row(word) for word in words], np.int64).reshape(len(words), MOST_FEATURES)

    def knows(self, word: str) -> bool:
        """Whether this word occurred in training, in any case."""
        return self.row(word)[0] != UNKNOWN
