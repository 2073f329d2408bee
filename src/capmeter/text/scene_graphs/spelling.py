"""Spelling correction of captions: insertions, deletions, substitutions, transpositions, and words run together.

Annotators wrote graphs with the correct word ("frisbie": frisbee). A word is misspelt if neither it nor a word that it
may derive from is known. It becomes two words if one of them is small and the other frequent ("infront"), or else the
most probable of the frequent words that are one edit away, two for a long word. Frequent words are more probable; words
with another first letter and substitutions are less probable than deletions, doublings and transpositions.

>>> spelling = Spelling(["front", "skiing", "shirt", "walking", "refrigerator"], ["biker", "shark"])
>>> spelling.correct(["wlaking", "sking", "bikers", "sharks", "zorble", "refridgirator"])
['walking', 'skiing', 'bikers', 'sharks', 'zorble', 'refrigerator']
>>> spelling.correct(["infront", "of"])
['in', 'front', 'of']
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from rapidfuzz import process
from rapidfuzz.distance import OSA

_MIN_LETTERS, _MAX_LETTERS = 4, 24  # of a word that is corrected
_LONG_WORD = 8  # letters of a word in which two edits are possible
_ENDINGS = tuple("s es ed ing er ers or est y ly en ness ful less ish ion ions like".split())  # noqa: SIM905
_BEFORE = frozenset(["in", "on", "at", "of", "to", "the", "each", "with"])  # small words that run into the next one
_AFTER = frozenset(["the", "with", "is", "of", "on", "at"])  # small words that run into the previous one
_COMMON = 600  # number of the frequent words that may be run together with a small one
# Costs in natural logarithms, estimated on the training graphs.
_OTHER_FIRST_LETTER, _SUBSTITUTION, _SECOND_EDIT = 2.0, 1.0, 4.0
_RANK_OFFSET = 10  # frequencies follow Zipf's law, except for the first ranks


class Spelling:
    """Corrects words.

    Args:
        frequent: the words that others are corrected to, most frequent first.
        rare: other words that are correct.
    """

    def __init__(self, frequent: Sequence[str], rare: Iterable[str]) -> None:
        self.frequent, self.rare = tuple(frequent), frozenset(rare)
        self._lexicon = self.rare.union(self.frequent, _BEFORE, _AFTER)
        self._common = frozenset(self.frequent[:_COMMON])
        self._hyphenated = {word.replace("-", ""): word for word in reversed(self.frequent) if "-" in word}
        self._cached_correction = lru_cache(maxsize=1 << 16)(self._correct_word)

    def correct(self, words: Iterable[str]) -> list[str]:
        """Returns the words in lower case: unchanged, corrected, or each split into two."""
        return [corrected_word for word in words for corrected_word in self._cached_correction(word)]

    def is_correct(self, word: str) -> bool:
        """Whether a word stays as it is: known, derived from a known word, too short, too long, or not a word."""
        if not _MIN_LETTERS <= len(word) <= _MAX_LETTERS or not (word.isascii() and word.isalpha()):
            return True
        return any(base_form in self._lexicon for base_form in _base_forms(word))

    def _correct_word(self, word: str) -> tuple[str, ...]:
        return (word,) if self.is_correct(word) else self._split(word) or (self._find_nearest(word),)

    def _split(self, word: str) -> tuple[str, ...]:
        """Returns the two words that were run together, the hyphenated word that lost its hyphen, or nothing."""
        if word in self._hyphenated:
            return (self._hyphenated[word],)
        word_pairs = ((word[:split_position], word[split_position:]) for split_position in range(2, len(word) - 1))
        small_and_common = (
            (a, b) for a, b in word_pairs if (a in _BEFORE and b in self._common) or (b in _AFTER and a in self._common)
        )
        return next(small_and_common, ())

    def _find_nearest(self, word: str) -> str:
        """Returns the most probable word that is few edits away, or the word itself."""
        max_edits = 2 if len(word) >= _LONG_WORD else 1
        neighbours = process.extract(word, self.frequent, scorer=OSA.distance, score_cutoff=max_edits, limit=None)
        return min(neighbours, key=lambda neighbour: _edit_cost(word, *neighbour))[0] if neighbours else word


def _edit_cost(word: str, correction: str, edits: int, rank: int) -> float:
    """Returns the negative log probability of a misspelt word for the frequent word of this rank, up to a constant."""
    is_substitution = len(word) == len(correction) and sorted(word) != sorted(correction)
    first_letter_cost = _OTHER_FIRST_LETTER * (word[0] != correction[0])
    edit_cost = first_letter_cost + _SUBSTITUTION * is_substitution + _SECOND_EDIT * (edits - 1)
    return math.log(rank + _RANK_OFFSET) + edit_cost


def _base_forms(word: str) -> Iterator[str]:
    """Yields the word, and what it may derive from."""
    yield word
    for ending in _ENDINGS:
        base = word.removesuffix(ending)
        if base != word and len(base) > 2:
            yield base
            yield base + "e"
            if base[-1] == base[-2]:
                yield base[:-1]
            if base[-1] == "i":
                yield base[:-1] + "y"
