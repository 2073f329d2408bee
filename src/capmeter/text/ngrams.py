"""N-gram counts of every sentence of a pool, and the n-grams that candidates share with references.

An n-gram is identified by a 64-bit hash of its words that is the same in every run, so that tables of different parts
of a corpus can be merged and saved. (Among 20 million distinct n-grams the chance of any collision is 1 in 100,000.)

>>> from capmeter.captions.caption_set import SentencePool
>>> table = SentencePool(["a dog and a dog"]).analyse(NGrams(2, "whitespace"))
>>> table.size, sorted(table.counts.tolist()), table.lengths.tolist()
(6, [1, 1, 1, 2, 2, 2], [5])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from capmeter._version import __version__
from capmeter.captions.caption_set import CacheScope
from capmeter.captions.reference_cache import Arrays, compact_integers
from capmeter.core.ragged import Ragged, differ, distinct
from capmeter.text.tokenization.token_tables import SentenceSource, TokenTable, WhitespaceTokens, tokenizer_version

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
    """The n-grams of each sentence with their counts."""

    entries: Ragged  # row i: the ids of the distinct n-grams of sentence i
    counts: Integers  # (entries): the number of occurrences of each in its sentence
    order: Integers  # (n-grams): 1 … n
    hashes: npt.NDArray[np.uint64]  # (n-grams)
    lengths: Integers  # (sentences): numbers of words

    @property
    def size(self) -> int:
        """The number of distinct n-grams in the table."""
        return len(self.hashes)

    def take(self, rows: Integers) -> NGramTable:
        """The table of some sentences, in time that depends on these alone; ids keep the order of the hashes."""
        entries, counts = self.entries.take(rows), Ragged(self.counts, self.entries.offsets).take(rows)
        grams, position = entries.values, np.arange(len(entries.values))
        new_ids = np.empty(self.size, np.int64)  # of the n-grams of these sentences; the others are never read
        new_ids[grams] = position
        used = np.sort(grams[new_ids[grams] == position])  # each n-gram once
        new_ids[used] = position[: len(used)]
        taken = Ragged(new_ids[grams], entries.offsets)
        return NGramTable(taken, counts.values, self.order[used], self.hashes[used], self.lengths[rows])

    def document_frequencies(self, groups: Ragged, multiplicity: Integers) -> tuple[npt.NDArray[np.uint64], Integers]:
        """Counts the groups of sentences that contain each n-gram.

        Args:
            groups: row i has the sentences of group i.
            multiplicity: how many times each group counts (groups).

        Returns:
            The sorted hashes of the n-grams that occur, and their document frequencies.
        """
        spread = self.entries.take(groups.values)
        group = np.repeat(groups.rows, spread.lengths)
        bits = self.size.bit_length()
        keys = group << bits | spread.values
        if len(groups) << bits < 1 << 32:
            keys = keys.astype(np.uint32)  # sorted in half the time
        keys = distinct(keys)
        weights = None if np.all(multiplicity == 1) else multiplicity[keys >> bits]
        frequency = np.bincount(keys & ((1 << bits) - 1), weights, self.size).astype(np.int64)
        occurring = np.flatnonzero(frequency)
        return self.hashes[occurring], frequency[occurring]


@dataclass(frozen=True)
class NGrams:
    """Analysis: the n-grams up to order n of each sentence (`letters`: see `WhitespaceTokens`)."""

    n: int = 4
    tokenizer: str = "ptb"
    letters: bool = False
    cache_scope: ClassVar[CacheScope] = "batch"
    ARRAYS: ClassVar[tuple[str, ...]] = ("entries", "distinct", "counts", "order", "hashes", "lengths")

    @property
    def identity(self) -> str:
        """The name, the parameters, the tokenizer's version and the package's."""
        return f"{self}/{tokenizer_version(self.tokenizer)}/{__version__}"

    def arrays(self, table: NGramTable, rows: Integers) -> Arrays:
        """Encodes rows as arrays over the n-grams that they contain."""
        entry = Ragged(np.arange(len(table.counts)), table.entries.offsets).take(rows)
        grams = table.entries.values[entry.values]
        is_used = np.zeros(table.size, bool)
        is_used[grams] = True
        arrays = {
            "entries": (np.cumsum(is_used) - 1)[grams],
            "distinct": entry.lengths,
            "counts": table.counts[entry.values],
            "order": table.order[is_used],
            "lengths": table.lengths[rows],
        }
        return {name: compact_integers(numbers) for name, numbers in arrays.items()} | {"hashes": table.hashes[is_used]}

    def table(self, arrays: Arrays) -> NGramTable:
        """Decodes what `arrays` returned."""
        columns = {name: arrays[name].astype(np.int64) for name in ("entries", "counts", "order", "lengths")}
        entries = Ragged.from_lengths(columns.pop("entries"), arrays["distinct"])
        return NGramTable(entries, hashes=arrays["hashes"], **columns)

    def merge_tables(self, tables: Sequence[NGramTable], places: Sequence[Integers]) -> NGramTable:
        """Merges the tables of disjoint parts of a pool; ids follow the order of the hashes, as in one table."""
        gram_ids, first, hashes = _rank_hashes(np.concatenate([table.hashes for table in tables]), sorted_runs=True)
        order = np.concatenate([table.order for table in tables])[first]
        rows, start = [], 0
        for table in tables:  # id and count in one number, so that both are moved at once
            entry = gram_ids[start : start + table.size].take(table.entries.values) << 32 | table.counts
            rows.append(Ragged(entry, table.entries.offsets))
            start += table.size
        merged = Ragged.merged(rows, places)
        lengths = np.empty(sum(map(len, places)), np.int64)
        lengths[np.concatenate(list(places))] = np.concatenate([table.lengths for table in tables])
        entries = Ragged(merged.values >> 32, merged.offsets)
        return NGramTable(entries, merged.values & 0xFFFFFFFF, order, hashes, lengths)

    def run(self, pool: SentenceSource) -> NGramTable:
        """Counts the n-grams of this pool's sentences."""
        words: TokenTable = pool.analyse(WhitespaceTokens(self.tokenizer, self.letters))
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
        gram_ids, first, distinct_hashes = _rank_hashes(np.concatenate(hashes))
        bits = len(first).bit_length()
        occurrences = np.sort(np.concatenate(sentences) << bits | gram_ids)
        starts = np.flatnonzero(differ(occurrences))
        keys, counts = occurrences[starts], np.diff(starts, append=len(occurrences))
        per_sentence = np.bincount(keys >> bits, minlength=len(words.ids))
        return NGramTable(
            entries=Ragged.from_lengths(keys & ((1 << bits) - 1), per_sentence),
            counts=counts,
            order=np.concatenate(orders)[first].astype(np.int64),
            hashes=distinct_hashes,
            lengths=words.ids.lengths,
        )


def _rank_hashes(
    hashes: npt.NDArray[np.uint64], sorted_runs: bool = False
) -> tuple[Integers, Integers, npt.NDArray[np.uint64]]:
    """Returns the rank of each hash among the distinct ones, one position of each distinct hash, and these in order.

    sorted_runs: the hashes are several sorted lists in a row, which the stable sort merges in a tenth of the time.
    """
    order = np.argsort(hashes, kind="stable" if sorted_runs else None)
    ordered = hashes.take(order)
    is_new = differ(ordered)
    rank = np.empty(len(hashes), np.int64)
    rank[order] = np.cumsum(is_new) - 1
    firsts = np.flatnonzero(is_new)
    return rank, order[firsts], ordered[firsts]


class CaptionIndices(Protocol):
    """Candidates and references as indices into a pool."""

    @property
    def pool(self) -> SentenceSource:
        """The distinct sentences."""
        ...

    @property
    def candidates(self) -> npt.NDArray[Any]:
        """The sentence of each caption's candidate (captions)."""
        ...

    @property
    def references(self) -> Ragged:
        """The sentences of each caption's references, one row per caption."""
        ...


@dataclass(frozen=True, eq=False)
class MatchTable:
    """The n-grams that each candidate shares with each of its references."""

    grams: NGramTable
    slots: Ragged  # row i: the entries (positions in `grams.entries.values`) of caption i's candidate
    slot: Integers  # (matches): position in `slots.values`
    pair: Integers  # (matches): position in the captions' `references.values`
    reference_entry: Integers  # (matches): the reference's entry


@dataclass(frozen=True)
class Matches:
    """Analysis: the n-grams shared by candidates and references."""

    n: int = 4
    tokenizer: str = "ptb"
    letters: bool = False

    def run(self, captions: CaptionIndices) -> MatchTable:
        """Matches the candidates and references of these captions."""
        grams: NGramTable = captions.pool.analyse(NGrams(self.n, self.tokenizer, self.letters))
        return match_ngrams(captions, grams)


def match_ngrams(captions: CaptionIndices, grams: NGramTable) -> MatchTable:
    """Finds the n-grams that candidates share with their references.

    Args:
        captions: candidates and references.
        grams: the n-grams of the captions' pool.
    """
    positions = Ragged(np.arange(len(grams.entries.values)), grams.entries.offsets)
    slots = positions.take(captions.candidates)
    candidate_grams = grams.entries.values[slots.values]
    in_candidates = np.zeros(grams.size, bool)
    in_candidates[candidate_grams] = True
    entries = positions.take(captions.references.values)
    shared = np.flatnonzero(in_candidates.take(grams.entries.values.take(entries.values)))  # with any candidate
    pair, entry = entries.rows.take(shared), entries.values.take(shared)
    candidate_keys = slots.rows * grams.size + candidate_grams
    reference_keys = captions.references.rows.take(pair) * grams.size + grams.entries.values.take(entry)
    slot = np.searchsorted(candidate_keys, reference_keys)
    if len(candidate_keys):
        matching = np.flatnonzero(candidate_keys.take(slot, mode="clip") == reference_keys)
    else:
        matching = slot[:0]
    return MatchTable(grams, slots, slot[matching], pair[matching], entry[matching])
