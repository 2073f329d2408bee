"""How often systems use frequent and rare words, relative to people (Figure 4 of Cui et al.).

The words of the references are ranked by frequency and divided into ranges, each from a rank to twice that rank. A
system's share of words in a range, divided by people's share, is below 1 where it uses such words too little.
Captioners hardly use rare words, so that a critic could tell them by that alone (§3.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.captions.model import CaptionSet
from capmeter.errors import InputError
from capmeter.metrics.base import Floats
from capmeter.text.tokens import Tokens, TokenTable

_FIRST = 16  # words in the first range


@dataclass(frozen=True, eq=False)
class WordFrequency:
    """Shares of words by range of rank.

    ranges: first and last rank. human: people's share of words in each range, and outside all (words that people never
    used: 0). systems: each system's shares likewise; the last is that of words no reference has.
    """

    ranges: tuple[tuple[int, int], ...]
    human: Floats
    systems: Mapping[str, Floats]


def word_frequency(systems: Mapping[str, CaptionSet], bins: int = 8) -> WordFrequency:
    """The shares of the systems' words, by their rank in the references of all of them."""
    people: dict[str, int] = {}
    said: dict[str, dict[str, int]] = {}
    for name, captions in systems.items():
        tokens: TokenTable = captions.pool.analyse(Tokens("ptb"))
        said[name] = _counted(tokens, captions.candidates)
        for word, count in _counted(tokens, np.unique(captions.references.values)).items():
            people[word] = max(people.get(word, 0), count)  # systems share their references
    ordered = sorted(people, key=lambda word: (-people[word], word))
    if not ordered:
        raise InputError("the references have no words; give captions with references")
    edges = [0, *(min(len(ordered), _FIRST << k) for k in range(bins - 1)), len(ordered)]
    edges = sorted(set(edges))
    place = {word: int(np.searchsorted(edges, rank, side="right")) - 1 for rank, word in enumerate(ordered)}
    ranges = tuple((low + 1, high) for low, high in pairwise(edges))
    return WordFrequency(
        ranges,
        _shares(people, place, len(ranges)),
        {name: _shares(counts, place, len(ranges)) for name, counts in said.items()},
    )


def _counted(tokens: TokenTable, rows: npt.NDArray[Any]) -> dict[str, int]:
    counts = np.bincount(tokens.ids.take(rows).values, minlength=len(tokens.vocabulary)).tolist()
    return {word: count for word, count in zip(tokens.vocabulary.words, counts, strict=True) if count}


def _shares(counts: Mapping[str, int], place: Mapping[str, int], ranges: int) -> Floats:
    found = np.zeros(ranges + 1)
    for word, count in counts.items():
        found[place.get(word, ranges)] += count
    shares: Floats = found / max(1.0, found.sum())
    return shares
