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

from capmeter.core.ragged import differ
from capmeter.text.meteor.word_matches import Ints, WordMatches, expand_ranges

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
    competing = np.flatnonzero(~settled)
    steps = _Steps.from_matches(matches, competing, lengths)
    options = _Options.from_matches(matches, competing, lengths, steps)
    paths = _Paths.start(len(lengths[0]), options)
    step = steps.first.copy()
    trail: list[tuple[Ints, Ints, Ints]] = []
    while len(paths.pair):
        if int(np.bincount(paths.pair).max()) > beam:
            paths = paths.take(paths.sort(paths.key, options.bits, beam))
        at = step.take(paths.pair)
        # The words between the last step and this one may break a chunk, and end with the same match for all paths.
        skipped = steps.skips_words.take(at)
        breaks = skipped & (paths.end != _NONE) & (paths.end != steps.skipped_start.take(at))
        paths.key += breaks * options.chunk_unit
        paths.end = np.where(skipped, steps.skipped_end.take(at), paths.end)
        order = paths.sort(paths.key << 1 | skipped & ~breaks, options.bits + 1)
        last = steps.is_last.take(at).take(order)
        trail.append((paths.parent, paths.option, order[np.flatnonzero(last & differ(paths.pair))]))
        paths = paths.extend(order[np.flatnonzero(~last)], at, steps.start, options)
        step += 1
    taken: list[Ints] = []
    rows: Ints = np.zeros(0, np.int64)
    for parent, option, last_rows in reversed(trail):
        rows = np.concatenate([rows, last_rows])
        taken.append(options.match[option[rows]])
        rows = parent[rows]
    indices = np.concatenate([*taken, np.flatnonzero(settled)])
    return np.sort(indices[indices != _NONE])


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
        pairs, width = len(lengths[0]), int(lengths[1].max()) + 2
        cell = matches.pair * width + matches.start
        ends = np.arange(pairs) * width + lengths[1] + 1
        is_open = np.zeros(pairs * width, bool)
        is_open[expand_ranges(cell[competing], matches.length[competing])] = True
        is_open[ends] = True
        # In the first column nothing precedes; `before` is that column or the cell after the previous step.
        steps = np.flatnonzero(is_open)
        pair = steps // width
        before = np.maximum(np.concatenate([[0], steps[:-1] + 1]), pair * width)
        match_start, match_end = np.full(len(is_open), _NONE), np.full(len(is_open), _NONE)
        match_start[cell] = matches.candidate_start  # of settled matches, and of others at open words
        match_end[cell + matches.length - 1] = matches.candidate_start + matches.candidate_length
        return cls(
            first=np.searchsorted(pair, np.arange(pairs)),
            start=steps - pair * width,
            cell=steps,
            width=width,
            is_last=steps == ends[pair],
            skips_words=before < steps,
            skipped_start=match_start[before],
            skipped_end=match_end[steps - 1],
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
        gain = np.where(matches.kind == 0, 2, matches.length // 2 + matches.candidate_length // 2)
        distance = np.abs(matches.start - start)
        step = np.searchsorted(steps.cell, pair * steps.width + matches.start)
        skip = np.cumsum(np.bincount(step, minlength=len(steps.cell)) + 1) - 1
        option = np.arange(len(competing)) + step

        def spread(values: Ints, skip_value: int) -> Ints:
            of_options = np.full(len(competing) + len(steps.cell), skip_value)
            of_options[option] = values
            return of_options

        pairs = len(lengths[0])
        max_gain = int(np.minimum(np.bincount(pair, gain, pairs), lengths[0] + lengths[1]).max())
        distance_bits = int(np.bincount(pair, distance, pairs).max()).bit_length()
        chunk_bits = (2 * int(np.bincount(steps.cell // steps.width).max())).bit_length()
        return cls(
            first=np.concatenate([[0], skip[:-1] + 1]),
            skip=skip,
            match=spread(competing, _NONE),
            gain=spread(gain << distance_bits + chunk_bits, 0),
            distance=spread(distance, 0),
            start=spread(start, _NONE),
            end=spread(end, _NONE),
            length=spread(matches.length, 1),
            words=_word_bits(matches, int(lengths[0].max()) + 1, option, skip[-1] + 1),
            max_gain=max_gain << distance_bits + chunk_bits,
            chunk_unit=1 << distance_bits,
            bits=max_gain.bit_length() + chunk_bits + distance_bits,
        )


def _word_bits(matches: WordMatches, width: int, option: Ints, options: int) -> Bits:
    """Returns the candidate's words of each match as bits (columns, options), one for each competed word of a pair."""
    cell = matches.pair * width + matches.candidate_start
    is_competed = np.zeros((int(matches.pair.max(initial=-1)) + 1, width), bool)
    is_competed.ravel()[expand_ranges(cell, matches.candidate_length)] = True
    bit = (np.cumsum(is_competed, axis=1) - 1).ravel()
    words = np.zeros((int(bit.max(initial=0)) // 64 + 1, options), np.uint64)
    for step in range(int(matches.candidate_length.max(initial=0))):
        longer = np.flatnonzero(matches.candidate_length > step)
        word_bit = bit[cell[longer] + step]
        words[word_bit >> 6, option[longer]] |= np.uint64(1) << (word_bit & 63).astype(np.uint64)
    return words


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
        used = np.zeros((len(options.words), pairs), np.uint64)
        return cls(pair, zeros + options.max_gain, zeros, zeros + _NONE, used, pair, zeros + options.skip[0])

    def take(self, rows: Ints) -> _Paths:
        names = self.__dataclass_fields__
        return _Paths(*(np.take(getattr(self, name), rows, axis=-1) for name in names))

    def sort(self, key: Ints, bits: int, beam: int | None = None) -> Ints:
        """Returns the rows in order of pair and key, or those of the `beam` best paths of each pair."""
        row = np.arange(len(key))
        is_first = differ(self.pair)
        if is_first.all():
            return row
        row_bits = len(key).bit_length()
        if int(self.pair[-1]).bit_length() + bits + row_bits <= _KEY_BITS:
            codes = (self.pair << bits | key) << row_bits | row
            codes.sort()
            order = codes & ((1 << row_bits) - 1)
        else:
            order = np.lexsort((key, self.pair))
        if beam is None:
            return order
        first = np.flatnonzero(is_first)
        best: Ints = order[row - np.repeat(first, np.diff(np.append(first, len(row)))) < beam]
        return best

    def extend(self, rows: Ints, at: Ints, start: Ints, options: _Options) -> _Paths:
        """Extends the paths in these rows, in this order, at the steps `at`, with every option whose words are free."""
        position, skip = start.take(at), options.skip.take(at)
        in_match = self.next > position
        first = np.where(in_match, skip, options.first.take(at)).take(rows)
        count = skip.take(rows) - first + 1
        parent, option = np.repeat(rows, count), expand_ranges(first, count)
        if len(self.used) == 1:
            fits = self.used[0].take(parent) & options.words[0].take(option) == 0
        else:
            fits = ~(self.used[:, parent] & options.words[:, option]).any(axis=0)
        free = np.flatnonzero(fits)  # selects four times as fast as the mask
        parent, option = parent.take(free), option.take(free)
        # The distances of the options tried before this one: those before it less those before its path's first.
        distance = options.distance.take(option)
        tried = np.cumsum(distance) - distance
        new = np.flatnonzero(differ(parent))
        tried -= np.repeat(tried[new], np.diff(np.append(new, len(parent))))
        end = self.end.take(parent)
        breaks = (end != _NONE) & (end != options.start.take(option))
        passed, new_end = position.take(parent) + options.length.take(option), options.end.take(option)
        if in_match.any():
            continues = in_match[parent]
            breaks &= ~continues
            passed, new_end = np.where(continues, self.next[parent], passed), np.where(continues, end, new_end)
        key = self.key.take(parent) + tried - options.gain.take(option) + breaks * options.chunk_unit
        used = self.used.take(parent, axis=1) | options.words.take(option, axis=1)
        return _Paths(self.pair.take(parent), key, passed, new_end, used, parent, option)
