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
    reference_counts: dict[str, int] = {}
    counts_by_system: dict[str, dict[str, int]] = {}
    for system_name, captions in systems.items():
        token_table: TokenTable = captions.pool.analyse(Tokens("ptb"))
        counts_by_system[system_name] = _word_counts(token_table, captions.candidates)
        for word, word_count in _word_counts(token_table, np.unique(captions.references.values)).items():
            reference_counts[word] = max(reference_counts.get(word, 0), word_count)  # systems share their references
    ranked_words = sorted(reference_counts, key=lambda word: (-reference_counts[word], word))
    if not ranked_words:
        raise InputError("the references have no words; give captions with references")
    edges = [0, *(min(len(ranked_words), _FIRST << k) for k in range(bins - 1)), len(ranked_words)]
    edges = sorted(set(edges))
    bin_of_word = {word: int(np.searchsorted(edges, rank, side="right")) - 1 for rank, word in enumerate(ranked_words)}
    ranges = tuple((low + 1, high) for low, high in pairwise(edges))
    return WordFrequency(
        ranges,
        _shares(reference_counts, bin_of_word, len(ranges)),
        {system_name: _shares(counts, bin_of_word, len(ranges)) for system_name, counts in counts_by_system.items()},
    )


def _word_counts(token_table: TokenTable, rows: npt.NDArray[Any]) -> dict[str, int]:
    token_counts = np.bincount(token_table.ids.take(rows).values, minlength=len(token_table.vocabulary)).tolist()
    return {word: count for word, count in zip(token_table.vocabulary.words, token_counts, strict=True) if count}


def _shares(word_counts: Mapping[str, int], bin_of_word: Mapping[str, int], range_count: int) -> Floats:
    bin_shares = np.zeros(range_count + 1)
    for word, word_count in word_counts.items():
        bin_shares[bin_of_word.get(word, range_count)] += word_count
    word_shares: Floats = bin_shares / max(1.0, bin_shares.sum())
    return word_shares
