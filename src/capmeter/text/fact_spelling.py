"""Misspelt words of captions: letters wrong, missing, too many or swapped, and small words run into others.

People wrote graphs with the right word ("frisbie": frisbee). A word is taken for misspelt where neither it nor what it
is derived from is known. It becomes two words where one of them is small and the other frequent ("infront"), or the
likeliest of the frequent words that are one change away, two for a long word: a frequent one is likelier, one with
another first letter or with a letter replaced less so than one with a letter lost, doubled or swapped.

>>> spelling = Spelling(["front", "skiing", "shirt", "walking", "refrigerator"], ["biker", "shark"])
>>> spelling.corrected(["wlaking", "sking", "bikers", "sharks", "zorble", "refridgirator"])
['walking', 'skiing', 'bikers', 'sharks', 'zorble', 'refrigerator']
>>> spelling.corrected(["infront", "of"])
['in', 'front', 'of']
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from rapidfuzz import process
from rapidfuzz.distance import OSA

_SHORTEST = 4  # letters of a word that is corrected
_LONGEST = 24
_LONG = 8  # letters of a word in which two may be wrong
_ENDINGS = tuple("s es ed ing er ers or est y ly en ness ful less ish ion ions like".split())  # noqa: SIM905
_BEFORE = frozenset(["in", "on", "at", "of", "to", "the", "each", "with"])  # small words that run into the next one
_AFTER = frozenset(["the", "with", "is", "of", "on", "at"])  # those that run into the one before
_COMMON = 600  # so many of the frequent words may be run together with a small one
# What is told from the training captions' graphs: how much less likely, as a natural logarithm.
_OTHER_FIRST, _REPLACED, _SECOND_CHANGE = 2.0, 1.0, 4.0
_FREQUENT_ALIKE = 10  # frequencies fall as those of words do, by rank, but the first few are about as likely


class Spelling:
    """Corrects words.

    Args:
        frequent: the words that others are corrected to, most frequent first.
        known: other words that are right, though rare.
    """

    def __init__(self, frequent: Sequence[str], known: Iterable[str]) -> None:
        self.frequent, self.known = tuple(frequent), frozenset(known)
        self._right = self.known.union(self.frequent, _BEFORE, _AFTER)
        self._common = frozenset(self.frequent[:_COMMON])
        self._hyphenated = {word.replace("-", ""): word for word in reversed(self.frequent) if "-" in word}
        self._found: dict[str, tuple[str, ...]] = {}

    def corrected(self, words: Iterable[str]) -> list[str]:
        """The words in lower case, each as it is, corrected, or as the two that it is made of."""
        return [right for word in words for right in self._corrected(word)]

    def is_right(self, word: str) -> bool:
        """Whether a word stays as it is: known, derived from what is known, too short, too long, or no word."""
        if not _SHORTEST <= len(word) <= _LONGEST or not (word.isascii() and word.isalpha()):
            return True
        return any(form in self._right for form in _bases(word))

    def _corrected(self, word: str) -> tuple[str, ...]:
        found = self._found.get(word)
        if found is None:
            found = (word,) if self.is_right(word) else self._apart(word) or (self._nearest(word),)
            if len(self._found) < 1 << 16:
                self._found[word] = found
        return found

    def _apart(self, word: str) -> tuple[str, ...]:
        """What was run together."""
        if word in self._hyphenated:
            return (self._hyphenated[word],)
        pairs = ((word[:place], word[place:]) for place in range(2, len(word) - 1))
        small = (
            (a, b) for a, b in pairs if (a in _BEFORE and b in self._common) or (b in _AFTER and a in self._common)
        )
        return next(small, ())

    def _nearest(self, word: str) -> str:
        """The likeliest word that is few changes away, or the word as it is."""
        most = 2 if len(word) >= _LONG else 1
        near = process.extract(word, self.frequent, scorer=OSA.distance, score_cutoff=most, limit=None)
        return min(near, key=lambda each: _unlikeliness(word, *each))[0] if near else word


def _unlikeliness(word: str, right: str, changes: int, rank: int) -> float:
    """Of a word for another one, the frequent word of that rank."""
    replaced = len(word) == len(right) and sorted(word) != sorted(right)
    other = _OTHER_FIRST * (word[0] != right[0]) + _REPLACED * replaced + _SECOND_CHANGE * (changes - 1)
    return math.log(rank + _FREQUENT_ALIKE) + other


def _bases(word: str) -> Iterator[str]:
    """The word, and what it may be derived from."""
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
