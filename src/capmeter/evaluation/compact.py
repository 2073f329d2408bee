"""Compact, lossless per-caption storage: rows of numbers, and ids.

Most rows are counts, integers below 256: each column of each part is stored in the smallest type that gives the same
numbers back, and ids as one long text, since a Python string of eight letters takes 57 bytes.

>>> rows = PackedRows([np.array([[3.0, 0.25], [200.0, 0.5]]), np.array([[1.0, 0.1]])])
>>> rows.array.tolist(), rows.sums().tolist(), rows.nbytes
([[3.0, 0.25], [200.0, 0.5], [1.0, 0.1]], [204.0, 0.85], 27)
>>> texts = PackedTexts([["391895", "522418"], ["7"]])
>>> list(texts), texts[2], texts[:2], len(texts)
(['391895', '522418', '7'], '7', ['391895', '522418'], 3)
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, pairwise
from typing import Any, overload

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
_INTEGER_TYPES = (np.uint8, np.uint16, np.uint32)


class PackedRows:
    """Rows of finite numbers, added part by part."""

    def __init__(self, parts: Iterable[Floats] = ()) -> None:
        self._parts: list[list[npt.NDArray[Any]]] = []  # of each part its columns, each (captions of the part)
        self._length = 0
        for part in parts:
            self.add(part)

    def add(self, values: Floats) -> None:
        """Adds the rows of a part, (captions, columns)."""
        self._parts.append([_pack(column) for column in values.T])
        self._length += len(values)

    def __len__(self) -> int:
        return self._length

    @property
    def nbytes(self) -> int:
        """The size of the stored numbers in bytes."""
        return sum(column.nbytes for part in self._parts for column in part)

    @property
    def blocks(self) -> Iterator[Floats]:
        """The rows of one part after the other."""
        return (np.stack([column.astype(np.float64) for column in part], axis=1) for part in self._parts)

    @property
    def array(self) -> Floats:
        """All rows: (captions, columns)."""
        return np.concatenate(list(self.blocks))

    def sums(self) -> Floats:
        """`array.sum(axis=0)` to the last bit, without building the array: (columns).

        numpy adds rows one after the other (several columns), or in pairs (one column).
        """
        blocks = iter([self.array]) if len(self._parts[0]) == 1 else self.blocks
        total: Floats = np.add.reduce(next(blocks))
        for block in blocks:
            total = np.add.reduce(np.concatenate([total[None], block]))
        return total


def _pack(column: Floats) -> npt.NDArray[Any]:
    """A copy of a column in the smallest type that holds its numbers."""
    if len(column) and not np.signbit(column).any():  # integers have no negative zero
        largest_value = column.max()
        for integer_type in _INTEGER_TYPES:
            if largest_value <= np.iinfo(integer_type).max:
                packed_column: npt.NDArray[Any] = column.astype(integer_type)
                if np.array_equal(packed_column, column):
                    return packed_column
    column_copy: npt.NDArray[Any] = column.copy()
    return column_copy


class PackedTexts(Sequence[str]):
    """Texts, added part by part; each part is stored as one text and the positions where its texts begin."""

    def __init__(self, parts: Iterable[Sequence[str]] = ()) -> None:
        self._parts: list[tuple[str, npt.NDArray[np.uint32]]] = []
        self._starts = [0]  # the index of each part's first text, and the number of texts
        for part in parts:
            self.add(part)

    def add(self, texts: Sequence[str]) -> None:
        """Adds the texts of a part."""
        bounds = np.zeros(len(texts) + 1, np.uint32)
        np.cumsum(np.fromiter(map(len, texts), np.uint32, len(texts)), out=bounds[1:])
        self._parts.append(("".join(texts), bounds))
        self._starts.append(self._starts[-1] + len(texts))

    def __len__(self) -> int:
        return self._starts[-1]

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(map(_split_part, self._parts))

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            positions = range(len(self))[index]
            if positions.step != 1 or not positions:
                return [self[k] for k in positions]
            part_index = bisect_right(self._starts, positions.start) - 1
            following = chain.from_iterable(map(_split_part, self._parts[part_index:]))
            return list(
                islice(following, positions.start - self._starts[part_index], positions.stop - self._starts[part_index])
            )
        position = range(len(self))[index]
        part_index = bisect_right(self._starts, position) - 1
        joined_text, bounds = self._parts[part_index]
        begin, end = bounds[position - self._starts[part_index] :][:2].tolist()
        return joined_text[begin:end]


def _split_part(part: tuple[str, npt.NDArray[np.uint32]]) -> list[str]:
    joined_text, bounds = part
    return [joined_text[begin:end] for begin, end in pairwise(bounds.tolist())]
