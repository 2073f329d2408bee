"""Analyses of pictures: computed once for each picture of an `ImagePool`, and memoised there.

>>> from capmeter.captions.model import ImagePool
>>> ImagePool([]).analyse(Contents()).first.tolist()
[]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from capmeter.captions.model import ImagePool, Life
from capmeter.errors import InputError
from capmeter.images.reading import Picture, content_hash, raise_unreadable, read_picture

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ContentTable:
    """The hash of each picture's content; `first` maps each picture to the first one with the same content."""

    hashes: tuple[str, ...]

    @property
    def first(self) -> Indices:
        """int[n]: equal for pictures with identical content under different names."""
        known: dict[str, int] = {}
        return np.array([known.setdefault(each, place) for place, each in enumerate(self.hashes)], np.int64)

    def take(self, indices: Indices) -> ContentTable:
        """The rows at these indices."""
        return ContentTable(tuple(self.hashes[i] for i in indices.tolist()))


@dataclass(frozen=True)
class Contents:
    """Analysis: the SHA-256 of each picture's file, which is also its key in a store of features."""

    life: ClassVar[Life] = "run"

    def run(self, pool: ImagePool) -> ContentTable:
        """The content hashes of the pool's pictures.

        Raises:
            InputError: files cannot be read; the first are named.
        """
        hashes, problems = [], []
        for place in pool.items:
            try:
                hashes.append(content_hash(place))
            except InputError as problem:
                problems.append(str(problem))
        raise_unreadable(problems, len(pool))
        return ContentTable(tuple(hashes))


def pictures(pool: ImagePool) -> Iterator[tuple[int, Picture]]:
    """Every distinct picture of the pool, decoded lazily: its first index in the pool, and the picture.

    Only one picture is in memory at a time, unless the caller keeps more. `Contents().first` maps every picture to the
    one that represents it here.
    """
    first: Indices = pool.analyse(Contents()).first
    for index in np.unique(first).tolist():
        yield index, read_picture(pool.items[index])
