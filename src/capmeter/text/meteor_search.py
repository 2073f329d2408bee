"""METEOR 1.5's beam search for the best alignment, for many sentence pairs at once.

The program walks over a reference's words. At each word it sorts a pair's partial alignments ("paths"), keeps the best
`beam`, and extends each: with every match that begins here and whose words are free, and without a match. Paths are
sorted by matched words (more first), chunks (fewer first) and distance (less first), with ties in order of creation.
Here all paths of all pairs are rows of one table, and one step extends them all.

Two quirks of the program are reproduced: matched words are weighted 1 (exact) or 0.5 (other) and truncated to integers
at each match, so that a one-word stem, synonym or paraphrase match counts nothing; and the distance of a match is added
to the path that it extends rather than to the new path, so that it counts for the matches tried after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.integer[Any]]
Bits = npt.NDArray[np.uint64]
_NONE = -1


def spans(first: Ints, count: Ints) -> Ints:
    """Concatenated ranges: first[0], first[0] + 1, … (count[0] numbers), first[1], …"""
    shift = first - (np.cumsum(count) - count)
    numbers: Ints = np.arange(int(count.sum())) + np.repeat(shift, count)
    return numbers


@dataclass(eq=False)
class _Paths:
    """One row per path: the words already used on both sides as bits, and the sort keys of paths.

    `next` is the first reference word not yet passed, `end` the hypothesis position after the last match (-1: the
    previous word was not matched).
    """

    pair: Ints
    total: Ints
    chunks: Ints
    distance: Ints
    next: Ints
    end: Ints
    used: Bits

    def take(self, rows: Ints) -> _Paths:
        return _Paths(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))

    def best(self, beam: int) -> Ints:
        """The rows of the best paths of each pair, in order."""
        if len(self.pair) < 2:
            return np.arange(len(self.pair))
        key = self.pair.astype(np.int64)
        for criterion in (self.total.max() - self.total, self.chunks, self.distance):
            key = key * (int(criterion.max()) + 1) + criterion
        order = np.argsort(key, kind="stable")
        pair = self.pair[order]
        first = np.flatnonzero(np.concatenate([[True], pair[1:] != pair[:-1]]))
        rank = np.arange(len(pair)) - np.repeat(first, np.diff(np.append(first, len(pair))))
        return order[rank < beam]


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
    the hypothesis; `settled` matches are always taken. `lengths` are the pairs' numbers of words (hypothesis,
    reference).
    """
    start, length, far, far_length = place
    pairs, width = len(lengths[0]), int(lengths[1].max(initial=0))
    gain = np.where(exact, 2, length // 2 + far_length // 2)
    apart, far_end = np.abs(start - far), far + far_length
    masks = _masks(place, width, width + int(lengths[0].max(initial=0)))
    at = pair * (width + 1) + start
    first = np.searchsorted(at, np.arange(pairs * (width + 1))).reshape(pairs, width + 1)
    count = np.bincount(at[~settled], minlength=first.size).reshape(first.shape)
    taken = np.full((pairs, width + 1), _NONE)
    taken.ravel()[at[settled]] = np.flatnonzero(settled)

    none = np.zeros(pairs, np.int64)
    used = np.zeros((pairs, masks.shape[1]), np.uint64)
    np.bitwise_or.at(used, pair[settled], masks[settled])
    paths = _Paths(np.arange(pairs), none, none, none, none, none + _NONE, used)
    came = np.arange(pairs), np.full(pairs, _NONE)  # each path's place among those gone on from, and its match
    trail: list[tuple[Ints, Ints]] = []
    # One position beyond the longest reference: there the last chunk is closed, as by a skipped word.
    for word in range(width + 1):
        rows = paths.best(beam)
        paths = paths.take(rows)
        trail.append((came[0][rows], came[1][rows]))  # of the paths that are dropped nothing is kept
        free = paths.next <= word
        sure = np.where(free, taken[paths.pair, word], _NONE)
        skip = free & (sure == _NONE)
        tries = np.where(skip, count[paths.pair, word], 0)
        parent = np.repeat(np.arange(len(rows)), tries)
        match = spans(first[paths.pair, word], tries)
        fits = ~(paths.used[parent] & masks[match]).any(axis=1)
        parent, match = parent[fits], match[fits]
        children = np.bincount(parent, minlength=len(rows))
        before = np.cumsum(children) - children
        apart_sum = np.concatenate([[0], np.cumsum(apart[match])])
        child = _Paths(
            paths.pair[parent],
            paths.total[parent] + gain[match],
            paths.chunks[parent] + _breaks(paths.end[parent], far[match]),
            paths.distance[parent] + apart_sum[:-1] - apart_sum[before[parent]],
            word + length[match],
            far_end[match],
            paths.used[parent] | masks[match],
        )
        took = sure != _NONE
        stay = _Paths(
            paths.pair,
            paths.total + np.where(took, gain[sure], 0),
            paths.chunks + np.where(took, _breaks(paths.end, far[sure]), skip & (paths.end != _NONE)),
            paths.distance + np.where(took, apart[sure], apart_sum[before + children] - apart_sum[before]),
            np.where(took, word + length[sure], np.where(skip, word + 1, paths.next)),
            np.where(took, far_end[sure], np.where(skip, _NONE, paths.end)),
            paths.used,
        )
        # A path's extensions come before the path itself, which continues without a match.
        order = np.empty(len(parent) + len(rows), np.int64)
        order[np.arange(len(parent)) + parent] = np.arange(len(parent))
        order[before + children + np.arange(len(rows))] = np.arange(len(parent), len(order))
        paths = _Paths(
            *(np.concatenate([getattr(child, name), getattr(stay, name)])[order] for name in stay.__dataclass_fields__)
        )
        origin = np.concatenate([parent, np.arange(len(rows))])[order]
        came = origin, np.concatenate([match, sure])[order]
    rows = paths.best(1)
    return _followed([*trail, (came[0][rows], came[1][rows])])


def _breaks(end: Ints, far: Ints) -> npt.NDArray[np.bool_]:
    """Whether a match does not continue where the previous word's match ended."""
    broken: npt.NDArray[np.bool_] = (end != _NONE) & (end != far)
    return broken


def _followed(trail: list[tuple[Ints, Ints]]) -> Ints:
    """The matches on the ways to the last paths of the trail."""
    row: Ints = np.arange(len(trail[-1][0]))
    chosen = []
    for origin, match in reversed(trail):
        chosen.append(match[row])
        row = origin[row]
    matches = np.concatenate([np.zeros(0, np.int64), *chosen])
    return np.sort(matches[matches != _NONE])


def _masks(place: tuple[Ints, Ints, Ints, Ints], width: int, bits: int) -> Bits:
    """The words of each match as bits: those of the reference, then those of the hypothesis."""
    start, length, far, far_length = place
    masks = np.zeros((len(start), max(1, -(-bits // 64))), np.uint64)
    for first, size in ((start, length), (far + width, far_length)):
        for step in range(int(size.max(initial=0))):
            row = np.flatnonzero(size > step)
            bit = first[row] + step
            masks[row, bit >> 6] |= np.uint64(1) << (bit & 63).astype(np.uint64)
    return masks
