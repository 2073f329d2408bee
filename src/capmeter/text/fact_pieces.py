"""The pieces of words that the graph maker knows: whole words, beginnings, and what follows them ("##ing").

A word is split from its beginning into the longest pieces there are, as BERT does (Devlin et al. 2019), and its vector
is the mean of theirs. Accents are removed; what stands between punctuation marks is split by itself.

>>> pieces = WordPieces([*SPECIAL, "dog", "##s", "t", "-", "shirt"])
>>> [pieces.pieces[number] for number in pieces.numbers("dogs")], pieces.numbers("t-shirt"), pieces.numbers("\u4e8c")
(['dog', '##s'], [6, 7, 8], [1])
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

NOTHING, UNKNOWN, BEGIN, END = SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
NOTHING_NUMBER, UNKNOWN_NUMBER, BEGIN_NUMBER, END_NUMBER = range(4)
MOST_PIECES = 8  # of a word; what follows is not read
INSIDE = "##"
_PARTS = re.compile(r"[^\W_]+|[\W_]")
_LONGEST = 40  # letters of a word that are read


class WordPieces:
    """Numbers of pieces.

    Args:
        pieces: `SPECIAL` first.
    """

    def __init__(self, pieces: Sequence[str]) -> None:
        if tuple(pieces[: len(SPECIAL)]) != SPECIAL:
            raise ValueError(f"expected pieces that begin with {SPECIAL}")
        self.pieces = tuple(pieces)
        self._number = {piece: number for number, piece in enumerate(self.pieces)}
        self._longest = max(map(len, self.pieces))
        self._rows: dict[str, list[int]] = {}

    def __len__(self) -> int:
        return len(self.pieces)

    def __contains__(self, word: str) -> bool:
        """Whether this word is one piece."""
        return word in self._number

    def numbers(self, word: str) -> list[int]:
        """The numbers of a word's pieces, at least one."""
        found: list[int] = []
        for part in _PARTS.findall(_plain(word[:_LONGEST])):
            start = 0
            while start < len(part) and len(found) < MOST_PIECES:
                inside = INSIDE if start else ""
                ends = range(min(len(part), start + self._longest), start, -1)
                end = next((end for end in ends if inside + part[start:end] in self._number), 0)
                found.append(self._number[inside + part[start:end]] if end else UNKNOWN_NUMBER)
                start = end or len(part)
        return found[:MOST_PIECES] or [UNKNOWN_NUMBER]

    def row(self, word: str) -> list[int]:
        """The numbers of a word's pieces, `MOST_PIECES` of them, padded with `NOTHING_NUMBER`."""
        row = self._rows.get(word)
        if row is None:
            numbers = self.numbers(word)
            row = numbers + [NOTHING_NUMBER] * (MOST_PIECES - len(numbers))
            if len(self._rows) < 1 << 16:
                self._rows[word] = row
        return row

    def rows(self, words: Sequence[str]) -> npt.NDArray[np.int64]:
        """The rows of several words, shape [words, MOST_PIECES]."""
        return np.array([self.row(word) for word in words], np.int64).reshape(len(words), MOST_PIECES)


def _plain(word: str) -> str:
    """In lower case without accents."""
    letters = unicodedata.normalize("NFD", word.lower())
    return "".join(letter for letter in letters if unicodedata.category(letter) != "Mn")
