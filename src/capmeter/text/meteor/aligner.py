"""METEOR 1.5's word alignment of many sentence pairs at once: candidate matches, unambiguous matches, beam search.

A match is a span of words in the candidate (the program's line 1) and one in the reference (line 2), and the module
that found it: the same word, the same stem, a shared synset, or a pair in the paraphrase table. Matches of all modules
are in the program's order, which breaks ties in its beam search.

METEOR 1.5's beam search for the best alignment, for many sentence pairs at once.

The program walks over a reference's words. At each word it sorts a pair's partial alignments ("paths"), keeps the best
`beam`, and extends each: with every match that begins at this word and whose words are free, and without a match. Paths
are sorted by matched words (more first), chunks (fewer first) and distance (less first), with ties in order of
creation. Here all paths of all pairs are rows of one table, and one step extends them all.

A step is taken only at *open* words, where a competing match begins or may still be going on. The words between two of
them are the same for all paths of a pair, except for one thing: whether the first of them breaks the path's chunk.
Paths that are equal after such a stretch were in order of that break before it, and so they stay.

Two quirks of the program are reproduced: matched words are weighted 1 (exact) or 0.5 (other) and truncated to integers
at each match, so that a one-word stem, synonym or paraphrase match counts nothing; and the distance of a match is added
to the path that it extends rather than to the new path, so that it counts for the matches tried after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from capmeter.core.ragged import differ, expand_ranges
from capmeter.text.meteor.sentence_features import BACKWARD, RANK_BITS, SYNONYM, AlignerSentences
from capmeter.text.meteor.synonyms import Ints

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


Mask = npt.NDArray[np.bool_]
Bits = npt.NDArray[np.uint64]
_NONE = -1
_KEY_BITS = 63  # of a sort key


def _find_best_alignments(matches: WordMatches, settled: Mask, lengths: tuple[Ints, Ints], beam: int) -> Ints:
    """Searches for the best alignment of each pair.

    Args:
        matches: ordered by pair (numbered from 0) and position in the reference.
        settled: the matches that share no word with another match, which are always taken (matches,).
        lengths: the pairs' numbers of words (candidates, references), each (pairs,).
        beam: number of paths of a pair.

    Returns:
        The indices of the matches in the alignments, ascending.
    """
    if not len(lengths[0]):
        return np.zeros(0, np.int64)
    competing_matches = np.flatnonzero(~settled)
    steps = _Steps.from_matches(matches, competing_matches, lengths)
    options = _Options.from_matches(matches, competing_matches, lengths, steps)
    paths = _Paths.start(len(lengths[0]), options)
    pair_steps = steps.first.copy()
    trail: list[tuple[Ints, Ints, Ints]] = []
    while len(paths.pair):
        if int(np.bincount(paths.pair).max()) > beam:
            paths = paths.take(paths.sort(paths.key, options.bits, beam))
        step_indices = pair_steps.take(paths.pair)
        # The words between the last step and this one may break a chunk, and end with the same match for all paths.
        is_skipped = steps.skips_words.take(step_indices)
        breaks_chunk = is_skipped & (paths.end != _NONE) & (paths.end != steps.skipped_start.take(step_indices))
        paths.key += breaks_chunk * options.chunk_unit
        paths.end = np.where(is_skipped, steps.skipped_end.take(step_indices), paths.end)
        path_order = paths.sort(paths.key << 1 | is_skipped & ~breaks_chunk, options.bits + 1)
        is_last = steps.is_last.take(step_indices).take(path_order)
        trail.append((paths.parent, paths.option, path_order[np.flatnonzero(is_last & differ(paths.pair))]))
        paths = paths.extend(path_order[np.flatnonzero(~is_last)], step_indices, steps.start, options)
        pair_steps += 1
    chosen_matches: list[Ints] = []
    path_rows: Ints = np.zeros(0, np.int64)
    for parent, option, last_rows in reversed(trail):
        path_rows = np.concatenate([path_rows, last_rows])
        chosen_matches.append(options.match[option[path_rows]])
        path_rows = parent[path_rows]
    match_indices = np.concatenate([*chosen_matches, np.flatnonzero(settled)])
    return np.sort(match_indices[match_indices != _NONE])


@dataclass(frozen=True, eq=False)
class _Steps:
    """The open words of all pairs, in order, and for each pair a last step beyond its words."""

    first: Ints  # (pairs,): the first step of each pair
    start: Ints  # (steps,): position of the word in the reference
    cell: Ints  # (steps,): pair * width + `start`
    width: int
    is_last: Mask  # (steps,)
    skips_words: Mask  # (steps,): whether words that are not open precede
    skipped_start: Ints  # (steps,): where the candidate has the first of these words, -1 if unmatched
    skipped_end: Ints  # (steps,): where the candidate's match of the last of these words ends

    @classmethod
    def from_matches(cls, matches: WordMatches, competing: Ints, lengths: tuple[Ints, Ints]) -> _Steps:
        pair_count, width = len(lengths[0]), int(lengths[1].max()) + 2
        match_cells = matches.pair * width + matches.start
        end_cells = np.arange(pair_count) * width + lengths[1] + 1
        is_open = np.zeros(pair_count * width, bool)
        is_open[expand_ranges(match_cells[competing], matches.length[competing])] = True
        is_open[end_cells] = True
        # In the first column nothing precedes; `gap_starts` is that column or the cell after the previous step.
        step_cells = np.flatnonzero(is_open)
        step_pairs = step_cells // width
        gap_starts = np.maximum(np.concatenate([[0], step_cells[:-1] + 1]), step_pairs * width)
        match_start, match_end = np.full(len(is_open), _NONE), np.full(len(is_open), _NONE)
        match_start[match_cells] = matches.candidate_start  # of settled matches, and of others at open words
        match_end[match_cells + matches.length - 1] = matches.candidate_start + matches.candidate_length
        return cls(
            first=np.searchsorted(step_pairs, np.arange(pair_count)),
            start=step_cells - step_pairs * width,
            cell=step_cells,
            width=width,
            is_last=step_cells == end_cells[step_pairs],
            skips_words=gap_starts < step_cells,
            skipped_start=match_start[gap_starts],
            skipped_end=match_end[step_cells - 1],
        )


@dataclass(frozen=True, eq=False)
class _Options:
    """The options of all steps: to take one of the step's matches, or, the last option, to skip the word.

    The sort key of a path is (missing gain, chunks, distance) in one number; smaller is better.
    """

    first: Ints  # (steps,): the first option of each step
    skip: Ints  # (steps,): the last option of each step
    match: Ints  # (options,): index of the match, -1 for skipping
    gain: Ints  # (options,): matched words, in units of the key
    distance: Ints  # (options,)
    start: Ints  # (options,): the match's start in the candidate
    end: Ints  # (options,): the match's end in the candidate
    length: Ints  # (options,): number of the reference's words
    words: Bits  # (columns, options): the candidate's words of a match
    max_gain: int  # in units of the key
    chunk_unit: int  # of the key
    bits: int  # of the key

    @classmethod
    def from_matches(cls, matches: WordMatches, competing: Ints, lengths: tuple[Ints, Ints], steps: _Steps) -> _Options:
        matches = matches.take(competing)
        pair, start, end = matches.pair, matches.candidate_start, matches.candidate_start + matches.candidate_length
        match_gains = np.where(matches.kind == 0, 2, matches.length // 2 + matches.candidate_length // 2)
        match_distances = np.abs(matches.start - start)
        match_steps = np.searchsorted(steps.cell, pair * steps.width + matches.start)
        skip_options = np.cumsum(np.bincount(match_steps, minlength=len(steps.cell)) + 1) - 1
        match_options = np.arange(len(competing)) + match_steps

        def spread(values: Ints, skip_value: int) -> Ints:
            of_options = np.full(len(competing) + len(steps.cell), skip_value)
            of_options[match_options] = values
            return of_options

        pair_count = len(lengths[0])
        max_gain = int(np.minimum(np.bincount(pair, match_gains, pair_count), lengths[0] + lengths[1]).max())
        distance_bits = int(np.bincount(pair, match_distances, pair_count).max()).bit_length()
        chunk_bits = (2 * int(np.bincount(steps.cell // steps.width).max())).bit_length()
        return cls(
            first=np.concatenate([[0], skip_options[:-1] + 1]),
            skip=skip_options,
            match=spread(competing, _NONE),
            gain=spread(match_gains << distance_bits + chunk_bits, 0),
            distance=spread(match_distances, 0),
            start=spread(start, _NONE),
            end=spread(end, _NONE),
            length=spread(matches.length, 1),
            words=_word_bits(matches, int(lengths[0].max()) + 1, match_options, skip_options[-1] + 1),
            max_gain=max_gain << distance_bits + chunk_bits,
            chunk_unit=1 << distance_bits,
            bits=max_gain.bit_length() + chunk_bits + distance_bits,
        )


def _word_bits(matches: WordMatches, width: int, match_options: Ints, option_count: int) -> Bits:
    """Returns the candidate's words of each match as bits (columns, options), one for each competed word of a pair."""
    match_cells = matches.pair * width + matches.candidate_start
    is_competed = np.zeros((int(matches.pair.max(initial=-1)) + 1, width), bool)
    is_competed.ravel()[expand_ranges(match_cells, matches.candidate_length)] = True
    bit_indices = (np.cumsum(is_competed, axis=1) - 1).ravel()
    word_bits = np.zeros((int(bit_indices.max(initial=0)) // 64 + 1, option_count), np.uint64)
    for word_step in range(int(matches.candidate_length.max(initial=0))):
        longer_matches = np.flatnonzero(matches.candidate_length > word_step)
        word_bit = bit_indices[match_cells[longer_matches] + word_step]
        word_bits[word_bit >> 6, match_options[longer_matches]] |= np.uint64(1) << (word_bit & 63).astype(np.uint64)
    return word_bits


@dataclass(eq=False)
class _Paths:
    """Partial alignments, one row per path, by pair."""

    pair: Ints  # (paths,)
    key: Ints  # (paths,): sort key
    next: Ints  # (paths,): the first reference word not yet passed
    end: Ints  # (paths,): the candidate position after the last match, -1 if the previous word was not matched
    used: Bits  # (columns, paths): the candidate's words already used
    parent: Ints  # (paths,): row among the paths of the step before
    option: Ints  # (paths,): the option that was taken there

    @classmethod
    def start(cls, pairs: int, options: _Options) -> _Paths:
        """Returns the empty path of each pair."""
        pair, zeros = np.arange(pairs), np.zeros(pairs, np.int64)
        used_words = np.zeros((len(options.words), pairs), np.uint64)
        return cls(pair, zeros + options.max_gain, zeros, zeros + _NONE, used_words, pair, zeros + options.skip[0])

    def take(self, rows: Ints) -> _Paths:
        field_names = self.__dataclass_fields__
        return _Paths(*(np.take(getattr(self, field_name), rows, axis=-1) for field_name in field_names))

    def sort(self, key: Ints, bits: int, beam: int | None = None) -> Ints:
        """Returns the rows in order of pair and key, or those of the `beam` best paths of each pair."""
        row_numbers = np.arange(len(key))
        is_first = differ(self.pair)
        if is_first.all():
            return row_numbers
        row_bits = len(key).bit_length()
        if int(self.pair[-1]).bit_length() + bits + row_bits <= _KEY_BITS:
            sort_codes = (self.pair << bits | key) << row_bits | row_numbers
            sort_codes.sort()
            order = sort_codes & ((1 << row_bits) - 1)
        else:
            order = np.lexsort((key, self.pair))
        if beam is None:
            return order
        first_rows = np.flatnonzero(is_first)
        best: Ints = order[row_numbers - np.repeat(first_rows, np.diff(np.append(first_rows, len(row_numbers)))) < beam]
        return best

    def extend(self, rows: Ints, at: Ints, start: Ints, options: _Options) -> _Paths:
        """Extends the paths in these rows, in this order, at the steps `at`, with every option whose words are free."""
        step_positions, skip_options = start.take(at), options.skip.take(at)
        in_match = self.next > step_positions
        first_options = np.where(in_match, skip_options, options.first.take(at)).take(rows)
        option_counts = skip_options.take(rows) - first_options + 1
        parent, option = np.repeat(rows, option_counts), expand_ranges(first_options, option_counts)
        if len(self.used) == 1:
            fits = self.used[0].take(parent) & options.words[0].take(option) == 0
        else:
            fits = ~(self.used[:, parent] & options.words[:, option]).any(axis=0)
        free_options = np.flatnonzero(fits)  # selects four times as fast as the mask
        parent, option = parent.take(free_options), option.take(free_options)
        # The distances of the options tried before this one: those before it less those before its path's first.
        option_distances = options.distance.take(option)
        earlier_distances = np.cumsum(option_distances) - option_distances
        new_parents = np.flatnonzero(differ(parent))
        earlier_distances -= np.repeat(earlier_distances[new_parents], np.diff(np.append(new_parents, len(parent))))
        path_ends = self.end.take(parent)
        breaks_chunk = (path_ends != _NONE) & (path_ends != options.start.take(option))
        passed, new_end = step_positions.take(parent) + options.length.take(option), options.end.take(option)
        if in_match.any():
            continues = in_match[parent]
            breaks_chunk &= ~continues
            passed, new_end = np.where(continues, self.next[parent], passed), np.where(continues, path_ends, new_end)
        path_keys = (
            self.key.take(parent) + earlier_distances - options.gain.take(option) + breaks_chunk * options.chunk_unit
        )
        used_words = self.used.take(parent, axis=1) | options.words.take(option, axis=1)
        return _Paths(self.pair.take(parent), path_keys, passed, new_end, used_words, parent, option)


# The largest numbers of pairs, and of pairs of words, in a batch; of pairs that are searched at once.
_BATCH_PAIRS, _BATCH_CELLS, _SEARCH_PAIRS = 2048, 1_000_000, 4096
# Pairs with more pairs of words are not a caption and its reference. Pairs that repeat words are slow to search, or
# need much memory; the Java program takes minutes, or fails.
_MAX_CELLS, _MAX_WORK, _MAX_OPTIONS = 4_000_000, 1_000_000_000, 10_000_000


class _Lengths(NamedTuple):
    """Numbers of words of pairs."""

    candidate: Ints  # (pairs,)
    reference: Ints  # (pairs,)

    def take(self, rows: Ints | Mask | slice) -> _Lengths:
        return _Lengths(self.candidate[rows], self.reference[rows])


@dataclass(frozen=True, eq=False)
class MatchedPairs:
    """All matches of pairs of sentences, from which `align` chooses the best alignments of some pairs.

    Inside, pairs are sorted by their lengths, so that neighbours have similar lengths.
    """

    order: Ints  # (sorted pairs,): index of each pair
    lengths: _Lengths  # of the sorted pairs
    matches: WordMatches  # of the sorted pairs
    settled: Mask  # (matches,): those that compete with no other
    min_chunks: Ints  # (sorted pairs,): a lower bound of the number of chunks of any alignment
    unaligned: Ints  # pairs that are too long or repeat too many words to be aligned; they have no match
    beam: int

    @classmethod
    def from_sentences(
        cls,
        sentences: AlignerSentences,
        candidates: Ints,
        references: Ints,
        *,
        beam: int = 40,
        matches_per_pair: int = 64,
    ) -> MatchedPairs:
        """Finds the matches of pairs.

        Args:
            sentences: all sentences.
            candidates: the candidate of each pair, as an index of a sentence (pairs,).
            references: the reference of each pair (pairs,).
            beam: number of paths of the search.
            matches_per_pair: if a batch has more, because captions repeat words, only those of the best alignments are
                stored.
        """
        lengths = _Lengths(sentences.lengths[candidates], sentences.lengths[references])
        too_long = lengths.candidate * lengths.reference > _MAX_CELLS
        pair_indices = np.flatnonzero(~too_long)
        pair_order = pair_indices[np.lexsort((lengths.candidate[pair_indices], lengths.reference[pair_indices]))]
        lengths = lengths.take(pair_order)
        match_parts, settled_parts, unaligned_parts = [], [np.zeros(0, bool)], [np.flatnonzero(too_long)]
        min_chunks: list[Ints] = [np.zeros(0, np.int64)]
        for batch_start, batch_end in _batches(lengths, _BATCH_PAIRS):
            batch_pairs, batch_lengths = pair_order[batch_start:batch_end], lengths.take(slice(batch_start, batch_end))
            matches, settled, skipped = _match_batch(sentences, candidates[batch_pairs], references[batch_pairs], beam)
            if len(matches.pair) > matches_per_pair * len(batch_pairs):
                matches = matches.take(np.sort(_best_matches(matches, settled, batch_lengths, beam)))
                settled = np.ones(len(matches.pair), bool)
            match_parts.append(replace(matches, pair=matches.pair + batch_start))
            settled_parts.append(settled)
            min_chunks.append(_min_chunks(matches, settled, len(batch_pairs)))
            unaligned_parts.append(batch_pairs[skipped])
        return cls(
            pair_order,
            lengths,
            WordMatches.concatenate(match_parts),
            np.concatenate(settled_parts),
            np.concatenate(min_chunks),
            np.sort(np.concatenate(unaligned_parts)),
            beam,
        )

    def align(self, pairs: Ints) -> WordMatches:
        """Aligns some pairs.

        Args:
            pairs: their indices.

        Returns:
            The matches of their alignments, by pair (numbered from 0, as in `pairs`) and position in the reference.
        """
        pair_numbers = np.full(int(max(self.order.max(initial=-1), pairs.max(initial=-1))) + 1, -1)
        pair_numbers[pairs] = np.arange(len(pairs))
        selected_pairs = np.flatnonzero(pair_numbers[self.order] >= 0)
        selected_lengths = self.lengths.take(selected_pairs)
        match_begins = np.searchsorted(self.matches.pair, np.arange(len(self.order) + 1))
        match_indices = []
        for batch_start, batch_end in _batches(selected_lengths, _SEARCH_PAIRS):
            batch_pairs = selected_pairs[batch_start:batch_end]
            match_counts = match_begins[batch_pairs + 1] - match_begins[batch_pairs]
            inside = expand_ranges(match_begins[batch_pairs], match_counts)
            matches = replace(self.matches.take(inside), pair=np.repeat(np.arange(len(batch_pairs)), match_counts))
            batch_lengths = selected_lengths.take(slice(batch_start, batch_end))
            match_indices.append(inside[_best_matches(matches, self.settled.take(inside), batch_lengths, self.beam)])
        best_matches = self.matches.take(np.concatenate([np.zeros(0, np.int64), *match_indices]))
        best_matches = replace(best_matches, pair=pair_numbers[self.order[best_matches.pair]])
        return best_matches.take(np.argsort(best_matches.pair << 32 | best_matches.start))


def _best_matches(matches: WordMatches, settled: Mask, lengths: _Lengths, beam: int) -> Ints:
    """Returns the indices of the matches that form the best alignment of each pair."""
    # Pairs whose matches are all settled need no search.
    is_searched = np.zeros(len(lengths.candidate), bool)
    is_searched[matches.pair.take(np.flatnonzero(~settled))] = True
    searched_indices = np.flatnonzero(is_searched.take(matches.pair))
    pair_numbers, searched_matches = np.cumsum(is_searched) - 1, matches.take(searched_indices)
    searched_matches = replace(searched_matches, pair=pair_numbers.take(searched_matches.pair))
    best_indices = _find_best_alignments(searched_matches, settled[searched_indices], lengths.take(is_searched), beam)
    settled_elsewhere = settled.copy()
    settled_elsewhere[searched_indices] = False
    return np.concatenate([np.flatnonzero(settled_elsewhere), searched_indices[best_indices]])


def _batches(lengths: _Lengths, max_pairs: int) -> Iterator[tuple[int, int]]:
    """Yields ranges of neighbouring pairs with a limited number of pairs and of pairs of words."""
    batch_start = 0
    while batch_start < len(lengths.candidate):
        width, depth = map(np.maximum.accumulate, lengths.take(slice(batch_start, batch_start + max_pairs)))
        cell_counts = np.arange(1, len(depth) + 1) * depth * width  # of a table of all pairs of words
        batch_size = max(1, int(np.searchsorted(cell_counts, _BATCH_CELLS, side="right")))
        yield batch_start, min(batch_start + batch_size, len(lengths.candidate))
        batch_start += batch_size


def _match_batch(
    sentences: AlignerSentences, candidates: Ints, references: Ints, beam: int
) -> tuple[WordMatches, Mask, Mask]:
    """Returns the matches of pairs, which of them are settled, and which pairs are too slow to align."""
    lengths = _Lengths(sentences.lengths[candidates], sentences.lengths[references])
    matches = _find_matches(sentences, candidates, references, lengths)
    settled = _find_settled(matches, lengths)
    depth = int(lengths.reference.max(initial=0)) + 1
    cell_indices = matches.pair[~settled] * depth + matches.start[~settled]
    competing_counts = np.bincount(cell_indices, minlength=len(candidates) * depth).reshape(len(candidates), -1)
    size = beam * ((lengths.candidate + lengths.reference) // 64 + 1)
    too_slow = (competing_counts.sum(axis=1) * size > _MAX_WORK) | (competing_counts.max(axis=1) * size > _MAX_OPTIONS)
    if too_slow.any():
        is_fast = ~too_slow[matches.pair]
        matches, settled = matches.take(is_fast), settled[is_fast]
    return matches, settled, too_slow


def _find_matches(sentences: AlignerSentences, candidates: Ints, references: Ints, lengths: _Lengths) -> WordMatches:
    """Returns every match of each pair, ordered by pair, position in the reference, and then as in the program."""
    depth, width, pairs = int(lengths.reference.max(initial=0)), int(lengths.candidate.max(initial=0)), len(candidates)
    reference_positions, candidate_positions = np.arange(depth)[:, None], np.arange(width)[:, None]
    reference_words = sentences.padded.take(sentences.offsets[references] + reference_positions)
    candidate_words = sentences.padded.take(sentences.offsets[candidates] + candidate_positions)

    def equal_cells(numbers: npt.NDArray[np.int32]) -> Mask:
        """Returns a table (words of the reference, words of the candidate, pairs)."""
        reference = np.where(reference_positions < lengths.reference, numbers.take(reference_words), -1)
        candidate = np.where(candidate_positions < lengths.candidate, numbers.take(candidate_words), -2)
        cells: Mask = reference[:, None] == candidate
        return cells

    same_word = equal_cells(sentences.exact)
    pair, start, candidate_start = _unravel_cells(np.flatnonzero(same_word), width, pairs)
    # Two identical lists of words are matched by the exact module alone.
    on_diagonal = np.bincount(pair[start == candidate_start], minlength=pairs)
    differ = (lengths.candidate != lengths.reference) | (on_diagonal != lengths.reference)
    single_words = [(0, pair, start, candidate_start)]
    if sentences.stem is not None:
        same_stem = equal_cells(sentences.stem) > same_word
        if not differ.all():
            same_stem &= differ
        single_words.append((1, *_unravel_cells(np.flatnonzero(same_stem), width, pairs)))
    pair, phrase, other = _find_related(sentences, candidates, references, differ)
    cells, relation = sentences.relations.find(sentences.phrase.take(phrase), sentences.phrase.take(other))
    pair, phrase, other = pair[cells], phrase[cells], other[cells]
    is_synonym = relation >> RANK_BITS == SYNONYM
    synonym_indices = np.flatnonzero(is_synonym)
    word, other_word = (sentences.exact[sentences.phrase[side[synonym_indices]]] for side in (phrase, other))
    synonym_indices = synonym_indices[word != other_word]
    synonym_starts = sentences.phrase_start[phrase[synonym_indices]], sentences.phrase_start[other[synonym_indices]]
    single_words.append((2, pair[synonym_indices], *synonym_starts))
    match_parts = [
        WordMatches(
            pair, np.full(len(pair), match_kind), start, np.ones_like(start), other_start, np.ones_like(other_start)
        )
        for match_kind, pair, start, other_start in single_words
    ]
    rest = ~is_synonym
    match_parts.append(_match_paraphrases(sentences, pair[rest], phrase[rest], other[rest], relation[rest]))
    matches = WordMatches.concatenate(match_parts)
    rank = (matches.pair * max(depth, 1) + matches.start) * len(KINDS) + matches.kind
    return matches.take(np.sort(rank << 32 | np.arange(len(rank))) & 0xFFFFFFFF)  # faster than a stable argsort


def _unravel_cells(cell_indices: Ints, width: int, pair_count: int) -> tuple[Ints, Ints, Ints]:
    """Returns the (pair, row, column) of cells of a table (depth, width, pairs)."""
    cell, pair = np.divmod(cell_indices, max(pair_count, 1))
    return pair, *np.divmod(cell, max(width, 1))


def _find_related(
    sentences: AlignerSentences, candidates: Ints, references: Ints, differ: Mask
) -> tuple[Ints, Ints, Ints]:
    """Returns phrases that may be synonyms or paraphrases: (pair, the reference's phrase, the candidate's phrase)."""
    offsets = sentences.phrase_offsets
    phrase_counts = np.where(differ, offsets[references + 1] - offsets[references], 0)
    order = np.argsort(-phrase_counts, kind="stable")  # the pairs with a k-th phrase of the reference first
    phrase_counts, first, other_first = phrase_counts[order], offsets[references[order]], offsets[candidates[order]]
    other_count = offsets[candidates[order] + 1] - other_first
    column_numbers = np.arange(int(other_count.max(initial=0)))[:, None]
    # Phrases beyond a sentence's last one are related to nothing.
    candidate_signs = np.where(column_numbers < other_count, sentences.sign.take(other_first + column_numbers), 0)
    related_parts = []
    for row in range(int(phrase_counts.max(initial=0))):  # a table of all rows would not fit the processor's cache
        pairs = int(np.searchsorted(-phrase_counts, -row))
        cells = np.flatnonzero((sentences.related_signs.take(first[:pairs] + row) & candidate_signs[:, :pairs]) != 0)
        other_place, pair = np.divmod(cells, pairs)
        related_parts.append((order.take(pair), first.take(pair) + row, other_first.take(pair) + other_place))
    if not related_parts:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64)
    pair, phrase, other_phrase = (np.concatenate(columns) for columns in zip(*related_parts, strict=True))
    return pair, phrase, other_phrase


def _match_paraphrases(
    sentences: AlignerSentences, pair: Ints, phrase: Ints, other_phrase: Ints, relation: Ints
) -> WordMatches:
    """Returns the matches of related phrases of references and candidates, in the program's order.

    The program looks the table's left sides up in the reference, then in the candidate. The first direction orders a
    word's matches by (length, rank in the table, position in the candidate), the second by (position and length in the
    candidate, rank).
    """
    start, length = sentences.phrase_start[phrase], sentences.phrase_length[phrase]
    other_start, other_length = sentences.phrase_start[other_phrase], sentences.phrase_length[other_phrase]
    backward, rank = relation >> RANK_BITS == BACKWARD, relation & ((1 << RANK_BITS) - 1)
    order = np.where(backward, other_start << 32 | other_length << 28 | rank, length << 60 | rank << 28 | other_start)
    matches = WordMatches(pair, np.full(len(pair), 3), start, length, other_start, other_length)
    return matches.take(np.lexsort((order, pair << 32 | start << 1 | backward)))


def _min_chunks(matches: WordMatches, settled: Mask, pair_count: int) -> Ints:
    """Counts the settled matches of each pair that begin where no match ends: each begins a chunk in any alignment."""
    reference_end, candidate_end = matches.start + matches.length, matches.candidate_start + matches.candidate_length
    depth, width = int(reference_end.max(initial=0)) + 1, int(candidate_end.max(initial=0)) + 1
    is_end = np.zeros(pair_count * depth * width, bool)
    is_end[(matches.pair * depth + reference_end) * width + candidate_end] = True
    begins_chunk = settled & ~is_end.take((matches.pair * depth + matches.start) * width + matches.candidate_start)
    return np.bincount(matches.pair[begins_chunk], minlength=pair_count)


def _find_settled(matches: WordMatches, lengths: _Lengths) -> Mask:
    """Returns which matches compete with no other: no other match covers a word of theirs, on both sides."""
    is_settled = np.ones(len(matches.pair), bool)
    for word_counts, start, length in (
        (lengths.reference, matches.start, matches.length),
        (lengths.candidate, matches.candidate_start, matches.candidate_length),
    ):
        first_words = np.cumsum(word_counts)[matches.pair] - word_counts[matches.pair] + start
        cover_count = np.bincount(expand_ranges(first_words, length), minlength=int(word_counts.sum()))
        for step in range(int(length.max(initial=0))):
            is_inside = length > step
            is_settled[is_inside] &= cover_count[first_words[is_inside] + step] == 1
    return is_settled
