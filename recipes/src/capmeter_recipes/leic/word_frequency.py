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

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.evaluation.base import Floats
from capmeter.text.tokenization.token_tables import Tokens, TokenTable

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
    counts_by_system: dict[str, dict[str, int]] = {}
    for name, captions in systems.items():
        tokens: TokenTable = captions.pool.analyse(Tokens("ptb"))
        counts_by_system[name] = _word_counts(tokens, captions.candidates)
        for word, count in _word_counts(tokens, np.unique(captions.references.values)).items():
            people[word] = max(people.get(word, 0), count)  # systems share their references
    ordered = sorted(people, key=lambda word: (-people[word], word))
    if not ordered:
        raise InputError("the references have no words; give captions with references")
    edges = [0, *(min(len(ordered), _FIRST << k) for k in range(bins - 1)), len(ordered)]
    edges = sorted(set(edges))
    bin_of_word = {word: int(np.searchsorted(edges, rank, side="right")) - 1 for rank, word in enumerate(ordered)}
    ranges = tuple((low + 1, high) for low, high in pairwise(edges))
    return WordFrequency(
        ranges,
        _shares(people, bin_of_word, len(ranges)),
        {name: _shares(counts, bin_of_word, len(ranges)) for name, counts in counts_by_system.items()},
    )


def _word_counts(tokens: TokenTable, rows: npt.NDArray[Any]) -> dict[str, int]:
    counts = np.bincount(tokens.ids.take(rows).values, minlength=len(tokens.vocabulary)).tolist()
    return {word: count for word, count in zip(tokens.vocabulary.words, counts, strict=True) if count}


def _shares(counts: Mapping[str, int], bin_of_word: Mapping[str, int], ranges: int) -> Floats:
    bin_shares = np.zeros(ranges + 1)
    for word, count in counts.items():
        bin_shares[bin_of_word.get(word, ranges)] += count
    shares: Floats = bin_shares / max(1.0, bin_shares.sum())
    return shares
