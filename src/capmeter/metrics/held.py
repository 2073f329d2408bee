"""What a run keeps of each caption, in as few bytes as hold it exactly: rows of numbers, and ids.

Most rows are counts, whole numbers below 256: each column of each part is kept in the smallest type that gives the same
numbers back, and texts as one long text, since a Python string of eight letters takes 57 bytes.

>>> rows = Rows([np.array([[3.0, 0.25], [200.0, 0.5]]), np.array([[1.0, 0.1]])])
>>> rows.array.tolist(), rows.sums().tolist(), rows.nbytes
([[3.0, 0.25], [200.0, 0.5], [1.0, 0.1]], [204.0, 0.85], 27)
>>> texts = Texts([["391895", "522418"], ["7"]])
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
_WHOLE = (np.uint8, np.uint16, np.uint32)


class Rows:
    """Rows of finite numbers, added part by part; `array` is all of them as they came."""

    def __init__(self, parts: Iterable[Floats] = ()) -> None:
        self._parts: list[list[npt.NDArray[Any]]] = []
        self._length = 0
        for part in parts:
            self.add(part)

    def add(self, values: Floats) -> None:
        """Adds a part's rows [captions, columns]."""
        self._parts.append([_compact(column) for column in values.T])
        self._length += len(values)

    def __len__(self) -> int:
        return self._length

    @property
    def nbytes(self) -> int:
        """The bytes that the numbers take."""
        return sum(column.nbytes for part in self._parts for column in part)

    @property
    def blocks(self) -> Iterator[Floats]:
        """The rows of one part after the other."""
        return (np.stack([column.astype(np.float64) for column in part], axis=1) for part in self._parts)

    @property
    def array(self) -> Floats:
        """All rows: float64[captions, columns]."""
        return np.concatenate(list(self.blocks))

    def sums(self) -> Floats:
        """`array.sum(axis=0)`, without making the array.

        To the last digit: numpy adds rows one after the other (several columns), or in pairs (one column).
        """
        blocks = iter([self.array]) if len(self._parts[0]) == 1 else self.blocks
        total: Floats = np.add.reduce(next(blocks))
        for block in blocks:
            total = np.add.reduce(np.concatenate([total[None], block]))
        return total


def _compact(column: Floats) -> npt.NDArray[Any]:
    """The same numbers in the smallest type that holds them."""
    kept: npt.NDArray[Any]
    if len(column) and not np.signbit(column).any():  # a negative zero is no whole number here
        largest = column.max()
        for kind in _WHOLE:
            if largest <= np.iinfo(kind).max:
                kept = column.astype(kind)
                if np.array_equal(kept, column):
                    return kept
    kept = column.copy()
    return kept


class Texts(Sequence[str]):
    """Texts, added part by part, each part held as one text and where its texts begin."""

    def __init__(self, parts: Iterable[Sequence[str]] = ()) -> None:
        self._parts: list[tuple[str, npt.NDArray[np.uint32]]] = []
        self._first = [0]
        for part in parts:
            self.add(part)

    def add(self, texts: Sequence[str]) -> None:
        """Adds a part's texts."""
        bounds = np.zeros(len(texts) + 1, np.uint32)
        np.cumsum(np.fromiter(map(len, texts), np.uint32, len(texts)), out=bounds[1:])
        self._parts.append(("".join(texts), bounds))
        self._first.append(self._first[-1] + len(texts))

    def __len__(self) -> int:
        return self._first[-1]

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(map(_texts, self._parts))

    @overload
    def __getitem__(self, at: int) -> str: ...

    @overload
    def __getitem__(self, at: slice) -> list[str]: ...

    def __getitem__(self, at: int | slice) -> str | list[str]:
        if isinstance(at, slice):
            places = range(len(self))[at]
            if places.step != 1 or not places:
                return [self[k] for k in places]
            part = bisect_right(self._first, places.start) - 1
            following = chain.from_iterable(map(_texts, self._parts[part:]))
            return list(islice(following, places.start - self._first[part], places.stop - self._first[part]))
        place = range(len(self))[at]
        part = bisect_right(self._first, place) - 1
        text, bounds = self._parts[part]
        begin, end = bounds[place - self._first[part] :][:2].tolist()
        return text[begin:end]


def _texts(part: tuple[str, npt.NDArray[np.uint32]]) -> list[str]:
    text, bounds = part
    return [text[begin:end] for begin, end in pairwise(bounds.tolist())]
