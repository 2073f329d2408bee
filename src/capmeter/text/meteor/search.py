"""METEOR 1.5's beam search for the best alignment, for many sentence pairs at once.

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

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from capmeter.core.ragged import differ, expand_ranges
from capmeter.text.meteor.word_matches import Ints, WordMatches

Mask = npt.NDArray[np.bool_]
Bits = npt.NDArray[np.uint64]
_NONE = -1
_KEY_BITS = 63  # of a sort key


def find_best_alignments(matches: WordMatches, settled: Mask, lengths: tuple[Ints, Ints], beam: int) -> Ints:
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
