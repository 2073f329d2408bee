"""Analyses of images: computed once for each image of an `ImagePool`, and memoised there.

>>> from capmeter.captions.caption_set import ImagePool
>>> ImagePool([]).analyse(ContentHashes()).first.tolist()
[]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import ImagePool
from capmeter.core.errors import InputError
from capmeter.images.reading import content_hash, raise_unreadable

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ContentHashTable:
    """The hash of each image's content."""

    hashes: tuple[str, ...]

    @property
    def first(self) -> Indices:
        """int64 (images,): the first image with the same content, whatever its name."""
        first: dict[str, int] = {}
        return np.array([first.setdefault(digest, image_row) for image_row, digest in enumerate(self.hashes)], np.int64)


@dataclass(frozen=True)
class ContentHashes:
    """Analysis: the SHA-256 of each image's file, which is also its key in caches of features."""

    def compute(self, pool: ImagePool) -> ContentHashTable:
        """The content hashes of the pool's images.

        Raises:
            InputError: files cannot be read; the first are named.
        """
        content_hashes, problems = [], []
        for image in pool.items:
            try:
                content_hashes.append(content_hash(image))
            except InputError as error:
                problems.append(str(error))
        raise_unreadable(problems, len(pool))
        return ContentHashTable(tuple(content_hashes))
