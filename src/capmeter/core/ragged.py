"""Rows of different lengths in one array.

>>> import numpy as np
>>> table = Ragged.from_rows([[3, 1], [], [4]], np.int32)
>>> table[0].tolist(), table.lengths.tolist(), table.take(np.array([2, 0])).values.tolist()
([3, 1], [2, 0, 1], [4, 3, 1])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, eq=False, slots=True)
class Ragged:
    """Rows of different lengths in one array: row i is `values[offsets[i]:offsets[i + 1]]`."""

    values: npt.NDArray[Any]
    offsets: npt.NDArray[np.int64]

    @classmethod
    def from_rows(cls, rows: Sequence[Sequence[Any]], dtype: npt.DTypeLike) -> Ragged:
        """The ragged table of these rows."""
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        return cls.from_lengths(np.fromiter(chain.from_iterable(rows), dtype, int(lengths.sum())), lengths)

    @classmethod
    def from_lengths(cls, values: npt.NDArray[Any], lengths: npt.NDArray[Any]) -> Ragged:
        """The ragged table whose rows have these lengths and are concatenated in `values`."""
        return cls(values, row_offsets(lengths))

    @classmethod
    def merged(cls, parts: Sequence[Ragged], places: Sequence[npt.NDArray[Any]]) -> Ragged:
        """The rows of all parts in one table; `places` are the parts' rows in it, each of which occurs once."""
        lengths = np.empty(sum(map(len, parts)), np.int64)
        lengths[np.concatenate(places)] = np.concatenate([part.lengths for part in parts])
        merged = cls(np.empty(lengths.sum(), np.result_type(*(part.values for part in parts))), row_offsets(lengths))
        for part, rows in zip(parts, places, strict=True):
            merged.values[expand_ranges(merged.offsets[rows], part.lengths)] = part.values
        return merged

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> npt.NDArray[Any]:
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """The length of each row."""
        return np.diff(self.offsets)

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """For each value, its row."""
        return np.repeat(np.arange(len(self), dtype=np.int64), self.lengths)

    def take(self, indices: npt.NDArray[Any]) -> Ragged:
        """The rows at these indices, in that order."""
        positions, offsets = gather(self.offsets, indices)
        return Ragged(np.take(self.values, positions, axis=0), offsets)


def row_offsets(lengths: npt.NDArray[Any] | Sequence[int]) -> npt.NDArray[np.int64]:
    """Where concatenated rows of these lengths begin, and the end of the last: (rows + 1,)."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def gather(
    offsets: npt.NDArray[np.int64], rows: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The positions of some rows' values in the flat values, concatenated, and the offsets of these rows.

    Args:
        offsets: of all rows, (rows + 1,).
        rows: indices of rows.
    """
    starts = offsets[:-1][rows]
    lengths = offsets[1:][rows] - starts
    return expand_ranges(starts, lengths), row_offsets(lengths)


def expand_ranges(first: npt.NDArray[Any], count: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Concatenates ranges: first[0], first[0] + 1, … (count[0] numbers), first[1], …

    >>> expand_ranges(np.array([5, 9, 1]), np.array([2, 0, 3])).tolist()
    [5, 6, 1, 2, 3]
    """
    range_numbers = np.repeat(first - (np.cumsum(count) - count), count).astype(np.int64, copy=False)
    range_numbers += np.arange(len(range_numbers))
    return range_numbers


def distinct(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The different numbers in order: `np.unique`, whose table of hashes takes forty times as long as sorting.

    >>> distinct(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    sorted_values = np.sort(values)
    distinct_values: npt.NDArray[Any] = sorted_values[differ(sorted_values)]
    return distinct_values


def differ(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Which of these differ from the one before; the first does."""
    is_new = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=is_new[1:])
    return is_new
