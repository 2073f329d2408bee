"""Misspelt words of captions: one letter wrong, too many or too few, or two letters swapped.

People wrote graphs with the right word ("frisbie": frisbee). A word is taken for misspelt where neither it nor what it
is derived from is known; it becomes the most frequent word that is one change away.

>>> spelling = Spelling(["shirt", "walking"], ["biker", "shark"])
>>> spelling.corrected(["wlaking", "shirtt", "bikers", "sharks", "zorble"])
['walking', 'shirt', 'bikers', 'sharks', 'zorble']
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rapidfuzz import process
from rapidfuzz.distance import OSA

_SHORTEST = 4  # letters of a word that is corrected
_LONGEST = 24
_ENDINGS = tuple("s es ed d ing er ers or est y ly en ness ful less ish ion ions like".split())  # noqa: SIM905


class Spelling:
    """Corrects words.

    Args:
        frequent: the words that others are corrected to, most frequent first.
        known: other words that are right, though rare.
    """

    def __init__(self, frequent: Sequence[str], known: Iterable[str]) -> None:
        self.frequent, self.known = tuple(frequent), frozenset(known)
        self._right = self.known.union(self.frequent)
        self._found: dict[str, str] = {}

    def corrected(self, words: Sequence[str]) -> list[str]:
        """The words in lower case, each as it is or corrected."""
        return [self._corrected(word) for word in words]

    def _corrected(self, word: str) -> str:
        found = self._found.get(word)
        if found is None:
            found = word if self._is_right(word) else self._nearest(word)
            if len(self._found) < 1 << 16:
                self._found[word] = found
        return found

    def _is_right(self, word: str) -> bool:
        if not _SHORTEST <= len(word) <= _LONGEST or not (word.isascii() and word.isalpha()):
            return True
        return any(form in self._right for form in _bases(word))

    def _nearest(self, word: str) -> str:
        """The first word that is one change away, or the word as it is."""
        found = process.extractOne(word, self.frequent, scorer=OSA.distance, score_cutoff=1)
        return found[0] if found else word


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
