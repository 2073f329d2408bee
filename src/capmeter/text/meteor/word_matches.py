"""Matches of words and phrases between candidates and references."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.integer[Any]]
KINDS = ("exact", "stem", "synonym", "paraphrase")


@dataclass(frozen=True, eq=False)
class WordMatches:
    """Matches in pairs of sentences, each a span of words on both sides; all fields have the shape (matches,)."""

    pair: Ints
    kind: Ints  # index in `KINDS`
    start: Ints  # position of the first word in the reference
    length: Ints  # number of words in the reference
    candidate_start: Ints
    candidate_length: Ints

    def take(self, which: npt.NDArray[Any]) -> WordMatches:
        """Selects matches by their indices or by a mask."""
        match_indices = np.flatnonzero(which) if which.dtype == bool else which
        return WordMatches(*(getattr(self, field_name).take(match_indices) for field_name in self.__dataclass_fields__))

    @classmethod
    def concatenate(cls, parts: list[WordMatches]) -> WordMatches:
        """Concatenates matches."""
        field_names = cls.__dataclass_fields__
        return cls(
            *(np.concatenate([np.zeros(0, np.int64), *(getattr(part, name) for part in parts)]) for name in field_names)
        )
