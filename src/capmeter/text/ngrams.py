"""Counts of the n-grams of every sentence of a pool, and the n-grams that candidates share with references.

An n-gram is identified by a 64-bit hash of its words that is the same in every run, so that tables of different parts
of a corpus can be merged and saved. (Among 20 million distinct n-grams the chance of any collision is 1 in 100,000.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from capmeter._version import __version__
from capmeter.captions.kept import Arrays, smallest
from capmeter.captions.model import Life
from capmeter.ragged import Ragged, differ, distinct
from capmeter.text.tokens import Sentences, TokenTable, Words, tokenizer_version

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_STEP = np.uint64(0x9E3779B97F4A7C15)


def _mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Mixes every bit of the input into every bit of the output (the finaliser of splitmix64)."""
    for shift, factor in ((np.uint64(30), _MIX[0]), (np.uint64(27), _MIX[1])):
        values = (values ^ (values >> shift)) * factor
    mixed: npt.NDArray[np.uint64] = values ^ (values >> np.uint64(31))
    return mixed


@dataclass(frozen=True, eq=False)
class NGramTable:
    """The n-grams of each sentence with their counts.

    `entries`: row i has the distinct n-grams of sentence i, numbered over this table; `counts`: how often each occurs
    there (shape of `entries.values`); `order` (1 … n) and `hashes` of each numbered n-gram; `lengths`: the number of
    words of each sentence.
    """

    entries: Ragged
    counts: Integers
    order: Integers
    hashes: npt.NDArray[np.uint64]
    lengths: Integers

    @property
    def size(self) -> int:
        """The number of distinct n-grams in the table."""
        return len(self.hashes)

    def documents(self, groups: Ragged, times: Integers) -> tuple[npt.NDArray[np.uint64], Integers]:
        """Document frequencies: the number of groups of sentences that contain each n-gram (sorted hashes, counts).

        `times` says how often each group counts.
        """
        spread = self.entries.take(groups.values)
        group = np.repeat(groups.rows, spread.lengths)
        bits = self.size.bit_length()
        keys = group << bits | spread.values
        if len(groups) << bits < 1 << 32:
            keys = keys.astype(np.uint32)  # which are sorted in half the time
        keys = distinct(keys)
        gram = keys & ((1 << bits) - 1)
        weights = None if np.all(times == 1) else times[keys >> bits]
        frequency = np.bincount(gram, weights, self.size).astype(np.int64)
        seen = np.flatnonzero(frequency)
        return self.hashes[seen], frequency[seen]


@dataclass(frozen=True)
class NGrams:
    """Analysis: the n-grams up to order n of each sentence (`letters`: see `Words`)."""

    n: int = 4
    tokenizer: str = "ptb"
    letters: bool = False
    life: ClassVar[Life] = "part"
    ARRAYS: ClassVar[tuple[str, ...]] = ("entries", "distinct", "counts", "order", "hashes", "lengths")

    @property
    def identity(self) -> str:
        """The name, the parameters, the tokenizer's version and the package's."""
        return f"{self}/{tokenizer_version(self.tokenizer)}/{__version__}"

    def arrays(self, table: NGramTable, rows: Integers) -> Arrays:
        """The arrays of these rows and of their n-grams, as small as they can be."""
        entry = Ragged(np.arange(len(table.counts)), table.entries.offsets).take(rows)
        grams = table.entries.values[entry.values]
        used = np.zeros(table.size, bool)
        used[grams] = True
        whole = {
            "entries": (np.cumsum(used) - 1)[grams],
            "distinct": entry.lengths,
            "counts": table.counts[entry.values],
            "order": table.order[used],
            "lengths": table.lengths[rows],
        }
        return {name: smallest(numbers) for name, numbers in whole.items()} | {"hashes": table.hashes[used]}

    def table(self, arrays: Arrays) -> NGramTable:
        """The table of these arrays."""
        whole = {name: arrays[name].astype(np.int64) for name in ("entries", "counts", "order", "lengths")}
        entries = Ragged.from_lengths(whole.pop("entries"), arrays["distinct"])
        return NGramTable(entries, hashes=arrays["hashes"], **whole)

    def joined(self, tables: Sequence[NGramTable], places: Sequence[Integers]) -> NGramTable:
        """The table of all sentences; n-grams are numbered in the order of their hashes, as in one table."""
        number, first, hashes = _numbered(np.concatenate([table.hashes for table in tables]), sorted_runs=True)
        order = np.concatenate([table.order for table in tables])[first]
        rows, known = [], 0
        for table in tables:  # number and count in one number, so that both are moved at once
            entry = number[known : known + table.size].take(table.entries.values) << 32 | table.counts
            rows.append(Ragged(entry, table.entries.offsets))
            known += table.size
        entries = Ragged.merged(rows, places)
        lengths = np.empty(sum(map(len, places)), np.int64)
        lengths[np.concatenate(list(places))] = np.concatenate([table.lengths for table in tables])
        whole = Ragged(entries.values >> 32, entries.offsets)
        return NGramTable(whole, entries.values & 0xFFFFFFFF, order, hashes, lengths)

    def run(self, pool: Sentences) -> NGramTable:
        """The n-gram table of this pool."""
        words: TokenTable = pool.analyse(Words(self.tokenizer, self.letters))
        sentence = words.ids.rows
        last = words.ids.offsets[1:][sentence]
        position = np.arange(len(sentence))
        word = words.vocabulary.hashes[words.ids.values]
        gram = _mixed(word + _STEP)
        hashes, sentences, orders = [gram], [sentence], [np.ones(len(gram), np.int8)]
        for order in range(2, self.n + 1):
            starts = np.flatnonzero(position + order <= last)
            gram_at = np.zeros(len(word), np.uint64)
            gram_at[starts] = _mixed(gram[starts] * _STEP + word[starts + order - 1])
            gram = gram_at
            hashes.append(gram[starts])
            sentences.append(sentence[starts])
            orders.append(np.full(len(starts), order, np.int8))
        number, first, different = _numbered(np.concatenate(hashes))
        bits = len(first).bit_length()
        entries = np.sort(np.concatenate(sentences) << bits | number)
        at = np.flatnonzero(differ(entries))
        keys, counts = entries[at], np.diff(at, append=len(entries))
        per_sentence = np.bincount(keys >> bits, minlength=len(words.ids))
        return NGramTable(
            entries=Ragged.from_lengths(keys & ((1 << bits) - 1), per_sentence),
            counts=counts,
            order=np.concatenate(orders)[first].astype(np.int64),
            hashes=different,
            lengths=words.ids.lengths,
        )


def _numbered(
    hashes: npt.NDArray[np.uint64], sorted_runs: bool = False
) -> tuple[Integers, Integers, npt.NDArray[np.uint64]]:
    """The number of each hash among the different ones in order, where one of each is, and these.

    `sorted_runs`: they are several sorted lists in a row, which the stable sort merges in a tenth of the time.
    """
    rank = np.argsort(hashes, kind="stable" if sorted_runs else None)
    ranked = hashes.take(rank)
    new = differ(ranked)
    number = np.empty(len(hashes), np.int64)
    number[rank] = np.cumsum(new) - 1
    some = np.flatnonzero(new)
    return number, rank[some], ranked[some]


class CaptionIndices(Protocol):
    """Candidates and references as indices into a pool."""

    @property
    def pool(self) -> Sentences:
        """The sentences."""
        ...

    @property
    def candidates(self) -> npt.NDArray[Any]:
        """Each caption's candidate."""
        ...

    @property
    def references(self) -> Ragged:
        """Each caption's references."""
        ...


@dataclass(frozen=True, eq=False)
class MatchTable:
    """The n-grams that each candidate shares with each of its references.

    `slots`: row i has the entries (positions in the n-gram table) of caption i's candidate. Every match has a slot
    (position in `slots.values`), a pair (position in `references.values`) and that reference's entry.
    """

    grams: NGramTable
    slots: Ragged
    slot: Integers
    pair: Integers
    reference_entry: Integers


@dataclass(frozen=True)
class Matches:
    """Analysis: the n-grams shared by candidates and references."""

    n: int = 4
    tokenizer: str = "ptb"
    letters: bool = False

    def run(self, captions: CaptionIndices) -> MatchTable:
        """The match table of these captions."""
        grams: NGramTable = captions.pool.analyse(NGrams(self.n, self.tokenizer, self.letters))
        return matched(captions, grams)


def matched(captions: CaptionIndices, grams: NGramTable) -> MatchTable:
    """The entries of `grams`, a table of the captions' pool, that candidates share with their references."""
    positions = Ragged(np.arange(len(grams.entries.values)), grams.entries.offsets)
    slots = positions.take(captions.candidates)
    said = grams.entries.values[slots.values]
    is_said = np.zeros(grams.size, bool)
    is_said[said] = True
    theirs = positions.take(captions.references.values)
    kept = np.flatnonzero(is_said.take(grams.entries.values.take(theirs.values)))  # by any candidate, if not by theirs
    pair, entry = theirs.rows.take(kept), theirs.values.take(kept)
    mine = slots.rows * grams.size + said
    sought = captions.references.rows.take(pair) * grams.size + grams.entries.values.take(entry)
    found = np.searchsorted(mine, sought)
    hit = np.flatnonzero(mine.take(found, mode="clip") == sought) if len(mine) else found[:0]
    return MatchTable(grams, slots, found[hit], pair[hit], entry[hit])
