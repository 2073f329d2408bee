"""METEOR 1.5's beam search for the best alignment, for many sentence pairs at once.

The program walks over a reference's words. At each word it sorts a pair's partial alignments ("paths"), keeps the best
`beam`, and extends each: with every match that begins here and whose words are free, and without a match. Paths are
sorted by matched words (more first), chunks (fewer first) and distance (less first), with ties in order of creation.
Here all paths of all pairs are rows of one table, and one step extends them all.

A step is taken only at *open* words, where a competing match begins or may still be going on. What lies between two of
them is the same for all paths of a pair, except for one thing: whether its first word breaks the path's chunk. Paths
that are equal after such a stretch were in order of that break before it, and so they stay.

Two quirks of the program are reproduced: matched words are weighted 1 (exact) or 0.5 (other) and truncated to integers
at each match, so that a one-word stem, synonym or paraphrase match counts nothing; and the distance of a match is added
to the path that it extends rather than to the new path, so that it counts for the matches tried after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.ragged import differ

Ints = npt.NDArray[np.integer[Any]]
Bits = npt.NDArray[np.uint64]
_NONE = -1
_BITS = 63  # of a sort key


def spans(first: Ints, count: Ints) -> Ints:
    """Concatenated ranges: first[0], first[0] + 1, … (count[0] numbers), first[1], …"""
    shift = first - (np.cumsum(count) - count)
    numbers: Ints = np.arange(int(count.sum())) + np.repeat(shift, count)
    return numbers


def search(
    pair: Ints,
    exact: npt.NDArray[np.bool_],
    place: tuple[Ints, Ints, Ints, Ints],
    settled: npt.NDArray[np.bool_],
    lengths: tuple[Ints, Ints],
    beam: int,
) -> Ints:
    """Which matches form the best alignment of each pair.

    Matches are ordered by pair (numbered from 0) and start; `place` is their (start, length) in the reference and in
    the hypothesis; `settled` matches, which share no word with another match, are always taken. `lengths` are the
    pairs' numbers of words (hypothesis, reference).
    """
    if not len(lengths[0]):
        return np.zeros(0, np.int64)
    competing = np.flatnonzero(~settled)
    steps = _Steps.of(pair, place, competing, lengths)
    options = _Options.of(pair, exact, place, competing, lengths, steps)
    paths = _Paths.before(len(lengths[0]), options)
    step = steps.first.copy()
    trail: list[tuple[Ints, Ints, Ints]] = []
    while len(paths.pair):
        if int(np.bincount(paths.pair).max()) > beam:
            paths = paths.take(paths.best(paths.key, options.bits, beam))
        at = step.take(paths.pair)
        # What lies between the last step and this one may break a chunk, and ends with the same match for all paths.
        passed = steps.passes.take(at)
        breaks = passed & (paths.end != _NONE) & (paths.end != steps.far.take(at))
        paths.key += breaks * options.chunk
        paths.end = np.where(passed, steps.end.take(at), paths.end)
        order = paths.best(paths.key << 1 | passed & ~breaks, options.bits + 1)
        last = steps.last.take(at).take(order)
        trail.append((paths.parent, paths.option, order[np.flatnonzero(last & differ(paths.pair))]))
        paths = paths.extended(order[np.flatnonzero(~last)], at, steps.start, options)
        step += 1
    chosen: list[Ints] = []
    row: Ints = np.zeros(0, np.int64)
    for came, option, last_row in reversed(trail):
        row = np.concatenate([row, last_row])
        chosen.append(options.match[option[row]])
        row = came[row]
    matches = np.concatenate([*chosen, np.flatnonzero(settled)])
    return np.sort(matches[matches != _NONE])


@dataclass(frozen=True, eq=False)
class _Steps:
    """The open words of all pairs, in order, and for each pair a last step beyond its words.

    `place` is pair * width + `start`. Where a step `passes` words that are not open, `far` is where the hypothesis has
    the first of them (-1: unmatched) and `end` where the match of the last one ends.
    """

    first: Ints
    start: Ints
    place: Ints
    width: int
    last: npt.NDArray[np.bool_]
    passes: npt.NDArray[np.bool_]
    far: Ints
    end: Ints

    @classmethod
    def of(
        cls, pair: Ints, place: tuple[Ints, Ints, Ints, Ints], competing: Ints, lengths: tuple[Ints, Ints]
    ) -> _Steps:
        start, length, far, far_length = place
        pairs, width = len(lengths[0]), int(lengths[1].max()) + 2
        at = pair * width + start
        ends = np.arange(pairs) * width + lengths[1] + 1
        is_open = np.zeros(pairs * width, bool)
        is_open[spans(at[competing], length[competing])] = True
        is_open[ends] = True
        # In the first column nothing precedes; `before` is that column or the cell after the previous step.
        steps = np.flatnonzero(is_open)
        owner = steps // width
        before = np.maximum(np.concatenate([[0], steps[:-1] + 1]), owner * width)
        to, to_end = np.full(len(is_open), _NONE), np.full(len(is_open), _NONE)
        to[at], to_end[at + length - 1] = far, far + far_length  # of settled matches, and of others at open words
        return cls(
            first=np.searchsorted(owner, np.arange(pairs)),
            start=steps - owner * width,
            place=steps,
            width=width,
            last=steps == ends[owner],
            passes=before < steps,
            far=to[before],
            end=to_end[steps - 1],
        )


@dataclass(frozen=True, eq=False)
class _Options:
    """What can be done at a step: take one of its matches, or skip the word, which is the last of a step's options.

    A path's key is its (gain that it lacks, chunks, distance) in one number of so many `bits`: the smaller, the better;
    `gain` is in its unit, and `chunk` the unit of chunks. `words` are the hypothesis's words of a match as bits.
    """

    first: Ints
    skip: Ints
    match: Ints
    gain: Ints
    apart: Ints
    far: Ints
    end: Ints
    length: Ints
    words: Bits
    worst: int
    chunk: int
    bits: int

    @classmethod
    def of(
        cls,
        pair: Ints,
        exact: npt.NDArray[np.bool_],
        place: tuple[Ints, Ints, Ints, Ints],
        competing: Ints,
        lengths: tuple[Ints, Ints],
        steps: _Steps,
    ) -> _Options:
        owner = pair[competing]
        start, length, far, far_length = (each[competing] for each in place)
        gain, apart = np.where(exact[competing], 2, length // 2 + far_length // 2), np.abs(start - far)
        of_step = np.searchsorted(steps.place, owner * steps.width + start)
        skip = np.cumsum(np.bincount(of_step, minlength=len(steps.place)) + 1) - 1
        at = np.arange(len(competing)) + of_step

        def spread(values: Ints, none: int) -> Ints:
            spread = np.full(len(competing) + len(steps.place), none)
            spread[at] = values
            return spread

        pairs = len(lengths[0])
        most = int(np.minimum(np.bincount(owner, gain, pairs), lengths[0] + lengths[1]).max())
        distance = int(np.bincount(owner, apart, pairs).max()).bit_length()
        chunks = (2 * int(np.bincount(steps.place // steps.width).max())).bit_length()
        return cls(
            first=np.concatenate([[0], skip[:-1] + 1]),
            skip=skip,
            match=spread(competing, _NONE),
            gain=spread(gain << distance + chunks, 0),
            apart=spread(apart, 0),
            far=spread(far, _NONE),
            end=spread(far + far_length, _NONE),
            length=spread(length, 1),
            words=_words(owner, far, far_length, int(lengths[0].max()) + 1, at, skip[-1] + 1),
            worst=most << distance + chunks,
            chunk=1 << distance,
            bits=most.bit_length() + chunks + distance,
        )


def _words(pair: Ints, far: Ints, far_length: Ints, width: int, at: Ints, options: int) -> Bits:
    """The hypothesis's words of each match as bits [columns, options], of a pair's words that are competed for."""
    cell = pair * width + far
    taken = np.zeros((int(pair.max(initial=-1)) + 1, width), bool)
    taken.ravel()[spans(cell, far_length)] = True
    bit = (np.cumsum(taken, axis=1) - 1).ravel()
    words = np.zeros((int(bit.max(initial=0)) // 64 + 1, options), np.uint64)
    for step in range(int(far_length.max(initial=0))):
        longer = np.flatnonzero(far_length > step)
        here = bit[cell[longer] + step]
        words[here >> 6, at[longer]] |= np.uint64(1) << (here & 63).astype(np.uint64)
    return words


@dataclass(eq=False)
class _Paths:
    """One row per path, by pair: its sort key, the first reference word not yet passed, the hypothesis position after
    the last match (-1: the previous word was not matched), and the hypothesis's words already used as bits.

    `parent` is the path's row among those of the step before, `option` what it took there.
    """

    pair: Ints
    key: Ints
    next: Ints
    end: Ints
    used: Bits
    parent: Ints
    option: Ints

    @classmethod
    def before(cls, pairs: int, options: _Options) -> _Paths:
        """The empty path of each pair."""
        one, none = np.arange(pairs), np.zeros(pairs, np.int64)
        used = np.zeros((len(options.words), pairs), np.uint64)
        return cls(one, none + options.worst, none, none + _NONE, used, one, none + options.skip[0])

    def take(self, rows: Ints) -> _Paths:
        names = self.__dataclass_fields__
        return _Paths(*(np.take(getattr(self, name), rows, axis=-1) for name in names))

    def best(self, key: Ints, bits: int, beam: int | None = None) -> Ints:
        """The rows in order of this key, or those of the best paths of each pair."""
        row = np.arange(len(key))
        new = differ(self.pair)
        if new.all():
            return row
        place = len(key).bit_length()
        if int(self.pair[-1]).bit_length() + bits + place <= _BITS:
            codes = (self.pair << bits | key) << place | row
            codes.sort()
            order = codes & ((1 << place) - 1)
        else:
            order = np.lexsort((key, self.pair))
        if beam is None:
            return order
        first = np.flatnonzero(new)
        kept: Ints = order[row - np.repeat(first, np.diff(np.append(first, len(row)))) < beam]
        return kept

    def extended(self, rows: Ints, at: Ints, start: Ints, options: _Options) -> _Paths:
        """The paths in these rows, in this order, at the steps `at`, with every option whose words are free."""
        here, skip = start.take(at), options.skip.take(at)
        held = self.next > here  # in the middle of a match
        first = np.where(held, skip, options.first.take(at)).take(rows)
        count = skip.take(rows) - first + 1
        parent, option = np.repeat(rows, count), spans(first, count)
        if len(self.used) == 1:
            fits = self.used[0].take(parent) & options.words[0].take(option) == 0
        else:
            fits = ~(self.used[:, parent] & options.words[:, option]).any(axis=0)
        free = np.flatnonzero(fits)  # with which one selects four times as fast as with `fits`
        parent, option = parent.take(free), option.take(free)
        # The distances of the options tried before this one: those before it less those before its path's first.
        apart = options.apart.take(option)
        tried = np.cumsum(apart) - apart
        new = np.flatnonzero(differ(parent))
        tried -= np.repeat(tried[new], np.diff(np.append(new, len(parent))))
        end = self.end.take(parent)
        breaks = (end != _NONE) & (end != options.far.take(option))
        passed, after = here.take(parent) + options.length.take(option), options.end.take(option)
        if held.any():
            goes_on = held[parent]
            breaks &= ~goes_on
            passed, after = np.where(goes_on, self.next[parent], passed), np.where(goes_on, end, after)
        key = self.key.take(parent) + tried - options.gain.take(option) + breaks * options.chunk
        used = self.used.take(parent, axis=1) | options.words.take(option, axis=1)
        return _Paths(self.pair.take(parent), key, passed, after, used, parent, option)
