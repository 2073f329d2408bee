"""The regions of numbered pictures, in memory or in files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from capmeter.core.ragged import row_offsets
from capmeter.images.regions import Regions, regions_at
from capmeter_research.common.region_files import BoxRule, box_features

Floats = npt.NDArray[np.float32]


class RegionBank(Protocol):
    """The regions of numbered pictures."""

    def get(self, picture: int) -> tuple[Floats, Floats]:
        """Features (regions, dim) and positions (regions, 7) of a picture."""


@dataclass(frozen=True, eq=False)
class MemoryBank:
    """Regions in memory."""

    features: Floats  # (all regions, dim)
    positions: Floats  # (all regions, 7)
    offsets: npt.NDArray[np.int64]  # (pictures + 1), the first region of each picture

    @classmethod
    def from_arrays(cls, features: Sequence[Floats], boxes: Sequence[Floats]) -> MemoryBank:
        """Of the features of all regions, in some arrays, and the boxes of each picture, relative to its sides."""
        regions = Regions(np.concatenate(features), np.concatenate(boxes))
        return cls(
            regions.features, box_features(regions), row_offsets([len(picture_boxes) for picture_boxes in boxes])
        )

    def get(self, picture: int) -> tuple[Floats, Floats]:
        """Features and positions of a picture."""
        rows = slice(int(self.offsets[picture]), int(self.offsets[picture + 1]))
        return self.features[rows], self.positions[rows]


@dataclass(frozen=True, eq=False)
class FileBank:
    """Regions in files, which are read on access."""

    regions: str  # the folder or LMDB
    keys: tuple[str, ...]  # of the pictures there, by number
    rule: BoxRule  # which boxes of a picture are used

    def get(self, picture: int) -> tuple[Floats, Floats]:
        """Features and positions of a picture."""
        regions = self.rule.select(regions_at(self.regions).read(self.keys[picture]))
        return regions.features, box_features(regions)
