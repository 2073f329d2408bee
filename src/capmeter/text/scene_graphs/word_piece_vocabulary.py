"""The scene-graph parser's word pieces: whole words, beginnings of words, and their continuations ("##ing").

A word is split from its beginning into the longest pieces, as in BERT (Devlin et al. 2019). Accents are removed; parts
between punctuation marks are split separately.

>>> pieces = WordPieceVocabulary([*SPECIAL_PIECES, "dog", "##s", "t", "-", "shirt"])
>>> [pieces.pieces[k] for k in pieces.ids("dogs")], pieces.ids("t-shirt"), pieces.ids("\u4e8c")
(['dog', '##s'], [6, 7, 8], [1])
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

PAD, UNKNOWN, BEGIN, END = SPECIAL_PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
PAD_ID, UNKNOWN_ID, BEGIN_ID, END_ID = range(4)
MAX_PIECES = 8  # of a word; further ones are ignored
CONTINUATION = "##"
_PARTS = re.compile(r"[^\W_]+|[\W_]")
_MAX_LETTERS = 40  # of a word; further ones are ignored


class WordPieceVocabulary:
    """Ids of word pieces.

    Args:
        pieces: `SPECIAL_PIECES` first.
    """

    def __init__(self, pieces: Sequence[str]) -> None:
        if tuple(pieces[: len(SPECIAL_PIECES)]) != SPECIAL_PIECES:
            raise ValueError(f"expected pieces that begin with {SPECIAL_PIECES}")
        self.pieces = tuple(pieces)
        self._ids = {piece: piece_id for piece_id, piece in enumerate(self.pieces)}
        self._longest = max(map(len, self.pieces))
        self.row = lru_cache(maxsize=1 << 16)(self._look_up)

    def __len__(self) -> int:
        return len(self.pieces)

    def __contains__(self, word: str) -> bool:
        """Whether this word is one piece."""
        return word in self._ids

    def ids(self, word: str) -> list[int]:
        """Returns the ids of a word's pieces, at least one."""
        piece_ids: list[int] = []
        for word_part in _PARTS.findall(_strip_accents(word[:_MAX_LETTERS])):
            piece_start = 0
            while piece_start < len(word_part) and len(piece_ids) < MAX_PIECES:
                prefix = CONTINUATION if piece_start else ""
                possible_ends = range(min(len(word_part), piece_start + self._longest), piece_start, -1)
                end = next((end for end in possible_ends if prefix + word_part[piece_start:end] in self._ids), 0)
                piece_ids.append(self._ids[prefix + word_part[piece_start:end]] if end else UNKNOWN_ID)
                piece_start = end or len(word_part)
        return piece_ids[:MAX_PIECES] or [UNKNOWN_ID]

    def _look_up(self, word: str) -> list[int]:
        """Returns the ids of a word's pieces, `MAX_PIECES` of them, padded with `PAD_ID`."""
        piece_ids = self.ids(word)
        return piece_ids + [PAD_ID] * (MAX_PIECES - len(piece_ids))

    def rows(self, words: Sequence[str]) -> npt.NDArray[np.int64]:
        """Returns the ids of words' pieces (words, MAX_PIECES)."""
        return np.array([self.row(word) for word in words], np.int64).reshape(len(words), MAX_PIECES)


def _strip_accents(word: str) -> str:
    """Lower-cases a word and removes its accents."""
    letters = unicodedata.normalize("NFD", word.lower())
    return "".join(letter for letter in letters if unicodedata.category(letter) != "Mn")
