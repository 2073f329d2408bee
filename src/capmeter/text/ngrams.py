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
from capmeter.core.ragged import Ragged, differ, distinct
from capmeter.text.tokenization.token_tables import SentenceSource, TokenTable, WhitespaceTokens, tokenizer_version

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_STEP = np.uint64(0x9E3779B97F4A7C15)


def _mixed(hash_values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Mixes every bit of the input into every bit of the output (the finaliser of splitmix64)."""
    mixed_values = hash_values
    for shift, factor in ((np.uint64(30), _MIX[0]), (np.uint64(27), _MIX[1])):
        mixed_values = mixed_values ^ (mixed_values >> shift)
        mixed_values *= factor
    mixed_values ^= mixed_values >> np.uint64(31)
    return mixed_values


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
        selected_entries, counts = self.entries.take(rows), Ragged(self.counts, self.entries.offsets).take(rows)
        gram_ids, entry_positions = selected_entries.values, np.arange(len(selected_entries.values))
        new_ids = np.empty(self.size, np.int64)  # of the n-grams of these sentences; the others are never read
        new_ids[gram_ids] = entry_positions
        used_grams = np.sort(gram_ids[new_ids[gram_ids] == entry_positions])  # each n-gram once
        new_ids[used_grams] = entry_positions[: len(used_grams)]
        taken = Ragged(new_ids[gram_ids], selected_entries.offsets)
        return NGramTable(taken, counts.values, self.order[used_grams], self.hashes[used_grams], self.lengths[rows])

    @classmethod
    def join(cls, tables: Sequence[NGramTable], places: Sequence[Integers]) -> NGramTable:
        """Joins the tables of disjoint parts of a pool; ids follow the order of the hashes, as in one table."""
        gram_ids, first_positions, hashes = _rank_hashes(
            np.concatenate([table.hashes for table in tables]), sorted_runs=True
        )
        gram_orders = np.concatenate([table.order for table in tables])[first_positions]
        entry_rows, gram_start = [], 0
        for table in tables:  # id and count in one number, so that both are moved at once
            entry_codes = gram_ids[gram_start : gram_start + table.size].take(table.entries.values) << 32 | table.counts
            entry_rows.append(Ragged(entry_codes, table.entries.offsets))
            gram_start += table.size
        merged_rows = Ragged.merged(entry_rows, places)
        sentence_lengths = np.empty(sum(map(len, places)), np.int64)
        sentence_lengths[np.concatenate(list(places))] = np.concatenate([table.lengths for table in tables])
        entries = Ragged(merged_rows.values >> 32, merged_rows.offsets)
        return cls(entries, merged_rows.values & 0xFFFFFFFF, gram_orders, hashes, sentence_lengths)

    def document_frequencies(self, groups: Ragged, multiplicity: Integers) -> tuple[npt.NDArray[np.uint64], Integers]:
        """Counts the groups of sentences that contain each n-gram.

        Args:
            groups: row i has the sentences of group i.
            multiplicity: how many times each group counts (groups).

        Returns:
            The sorted hashes of the n-grams that occur, and their document frequencies.
        """
        group_entries = self.entries.take(groups.values)
        entry_groups = np.repeat(groups.rows, group_entries.lengths)
        gram_bits = self.size.bit_length()
        gram_keys = entry_groups << gram_bits | group_entries.values
        if len(groups) << gram_bits < 1 << 32:
            gram_keys = gram_keys.astype(np.uint32)  # sorted in half the time
        gram_keys = distinct(gram_keys)
        key_weights = None if np.all(multiplicity == 1) else multiplicity[gram_keys >> gram_bits]
        gram_frequencies = np.bincount(gram_keys & ((1 << gram_bits) - 1), key_weights, self.size).astype(np.int64)
        occurring_grams = np.flatnonzero(gram_frequencies)
        return self.hashes[occurring_grams], gram_frequencies[occurring_grams]


@dataclass(frozen=True)
class NGrams:
    """Analysis: the n-grams up to order n of each sentence (`letters`: see `WhitespaceTokens`)."""

    n: int = 4
    tokenizer: str = "ptb"
    letters: bool = False
    TABLE: ClassVar[type[NGramTable]] = NGramTable

    @property
    def identity(self) -> str:
        """The name, the parameters, the tokenizer's version and the package's."""
        return f"{self}/{tokenizer_version(self.tokenizer)}/{__version__}"

    def compute(self, pool: SentenceSource) -> NGramTable:
        """Counts the n-grams of this pool's sentences."""
        word_table: TokenTable = pool.analyse(WhitespaceTokens(self.tokenizer, self.letters))
        word_sentences = word_table.ids.rows
        sentence_ends = word_table.ids.offsets[1:][word_sentences]
        word_positions = np.arange(len(word_sentences))
        word_hashes = word_table.vocabulary.hashes[word_table.ids.values]
        gram_hashes = _mixed(word_hashes + _STEP)
        hash_parts, sentence_parts, order_parts = [gram_hashes], [word_sentences], [np.ones(len(gram_hashes), np.int8)]
        for gram_order in range(2, self.n + 1):
            starts = np.flatnonzero(word_positions + gram_order <= sentence_ends)
            gram_hashes = _mixed(gram_hashes[:-1] * _STEP + word_hashes[gram_order - 1 :])
            hash_parts.append(gram_hashes[starts])
            sentence_parts.append(word_sentences[starts])
            order_parts.append(np.full(len(starts), gram_order, np.int8))
        gram_ids, first_positions, distinct_hashes = _rank_hashes(np.concatenate(hash_parts))
        gram_bits = len(first_positions).bit_length()
        occurrences = np.concatenate(sentence_parts)
        occurrences <<= gram_bits
        occurrences |= gram_ids
        occurrences.sort()
        starts = np.flatnonzero(differ(occurrences))
        gram_keys, gram_counts = occurrences[starts], np.diff(starts, append=len(occurrences))
        per_sentence = np.bincount(gram_keys >> gram_bits, minlength=len(word_table.ids))
        return NGramTable(
            entries=Ragged.from_lengths(gram_keys & ((1 << gram_bits) - 1), per_sentence),
            counts=gram_counts,
            order=np.concatenate(order_parts)[first_positions].astype(np.int64),
            hashes=distinct_hashes,
            lengths=word_table.ids.lengths,
        )


def _rank_hashes(
    hashes: npt.NDArray[np.uint64], sorted_runs: bool = False
) -> tuple[Integers, Integers, npt.NDArray[np.uint64]]:
    """Returns the rank of each hash among the distinct ones, one position of each distinct hash, and these in order.

    sorted_runs: the hashes are several sorted lists in a row, which the stable sort merges in a tenth of the time.
    """
    if sorted_runs:
        hash_order = np.argsort(hashes, kind="stable")
        sorted_hashes = hashes.take(hash_order)
    else:
        hash_order, sorted_hashes = _sort_hashes(hashes)
    is_new = differ(sorted_hashes)
    hash_ranks = np.empty(len(hashes), np.int64)
    ranks = np.cumsum(is_new, dtype=np.int64)
    ranks -= 1
    hash_ranks[hash_order] = ranks
    first_positions = np.flatnonzero(is_new)
    return hash_ranks, hash_order[first_positions], sorted_hashes[first_positions]


def _sort_hashes(hashes: npt.NDArray[np.uint64]) -> tuple[Integers, npt.NDArray[np.uint64]]:
    """Returns the positions of hashes in ascending order, and the sorted hashes, faster than by `numpy.argsort`.

    The upper bits of each hash and its position are sorted as one number. Where different hashes have the same upper
    bits, which is rare, they are sorted as they are.

    >>> _sort_hashes(np.array([7 << 60, 3 << 60, 7 << 60], np.uint64))[0].tolist()
    [1, 0, 2]
    """
    low_bits = np.uint64((1 << len(hashes).bit_length()) - 1)
    packed = hashes & ~low_bits  # changed in place: what is as large as all n-grams takes time to allocate
    packed |= np.arange(len(hashes), dtype=np.uint64)
    packed.sort()
    packed &= low_bits
    order = packed.view(np.int64)
    sorted_hashes = hashes.take(order)
    if not (sorted_hashes[1:] >= sorted_hashes[:-1]).all():
        order = np.argsort(hashes)
        sorted_hashes = hashes.take(order)
    return order, sorted_hashes


class _CaptionIndices(Protocol):
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

    def compute(self, captions: _CaptionIndices) -> MatchTable:
        """Matches the candidates and references of these captions."""
        grams: NGramTable = captions.pool.analyse(NGrams(self.n, self.tokenizer, self.letters))
        return match_ngrams(captions, grams)


def match_ngrams(captions: _CaptionIndices, grams: NGramTable) -> MatchTable:
    """Finds the n-grams that candidates share with their references.

    Args:
        captions: candidates and references.
        grams: the n-grams of the captions' pool.
    """
    entry_positions = Ragged(np.arange(len(grams.entries.values)), grams.entries.offsets)
    slots = entry_positions.take(captions.candidates)
    candidate_grams = grams.entries.values[slots.values]
    in_candidates = np.zeros(grams.size, bool)
    in_candidates[candidate_grams] = True
    entries = entry_positions.take(captions.references.values)
    shared_entries = np.flatnonzero(in_candidates.take(grams.entries.values.take(entries.values)))  # with any candidate
    pair, entry = entries.rows.take(shared_entries), entries.values.take(shared_entries)
    candidate_keys = slots.rows * grams.size + candidate_grams
    reference_keys = captions.references.rows.take(pair) * grams.size + grams.entries.values.take(entry)
    slot = np.searchsorted(candidate_keys, reference_keys)
    if len(candidate_keys):
        matching_indices = np.flatnonzero(candidate_keys.take(slot, mode="clip") == reference_keys)
    else:
        matching_indices = slot[:0]
    return MatchTable(grams, slots, slot[matching_indices], pair[matching_indices], entry[matching_indices])
