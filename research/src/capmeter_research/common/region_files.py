"""Regions of pictures in memory and in files, and which of them are used: UNITER's box features and rule."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from capmeter.core.errors import InputError
from capmeter.core.output_files import atomic_file
from capmeter.core.ragged import row_offsets
from capmeter.images.regions import Floats, Regions, regions_at


def box_features(regions: Regions) -> Floats:
    """UNITER's box features, float32 (regions, 7): x1, y1, x2, y2, width, height, area."""
    box_sizes = regions.boxes[:, 2:] - regions.boxes[:, :2]
    return np.concatenate([regions.boxes, box_sizes, box_sizes[:, :1] * box_sizes[:, 1:]], axis=1)


@dataclass(frozen=True)
class BoxRule:
    """Which regions are used: those with a high confidence, within bounds; all if there are no confidences.

    Attributes:
        conf_th: regions with a confidence above it are used.
        min_boxes, max_boxes: bounds of their number.
        in_order: use the first ones of the file, as UNITER's code does, which relies on their order; else the most
            confident ones.
    """

    conf_th: float = 0.2
    min_boxes: int = 10
    max_boxes: int = 100
    in_order: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.min_boxes <= self.max_boxes:
            raise InputError(f"expected 1 <= min_boxes <= max_boxes, but got {self.min_boxes} and {self.max_boxes}")

    def count(self, confidence: Floats | None, boxes: int) -> int:
        """The number of boxes that are used."""
        confident = boxes if confidence is None else int((confidence > self.conf_th).sum())
        return min(boxes, self.max_boxes, max(self.min_boxes, confident))

    def select(self, regions: Regions) -> Regions:
        """The regions that are used."""
        box_count = self.count(regions.confidence, len(regions))
        if regions.confidence is None or self.in_order:
            return regions.take(np.arange(box_count))
        return regions.take(np.argsort(-regions.confidence, kind="stable")[:box_count])


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


def find_regions(images: Iterable[str], regions: str, rule: BoxRule) -> tuple[tuple[str, ...], FileBank]:
    """The images that have regions, and their regions.

    Args:
        images: names of images.
        regions: a folder or an LMDB.
        rule: which boxes of an image are used.

    Raises:
        InputError: no image has regions.
    """
    source = regions_at(regions)
    keys = {image: key for image in images if (key := source.find(image)) is not None}
    if not keys:
        raise InputError(f"{regions}: no image with captions has regions here; check how both name images")
    return tuple(keys), FileBank(regions, tuple(keys.values()), rule)


def arrays_of(regions: Regions, *, half: bool = True) -> dict[str, Any]:
    """Regions as the arrays of a file; half: with the features in half precision, as UNITER writes them."""
    region_arrays: dict[str, Any] = {
        "features": regions.features.astype(np.float16 if half else np.float32),
        "norm_bb": box_features(regions)[:, :6],
    }
    if regions.confidence is not None:
        region_arrays["conf"] = regions.confidence
    if regions.labels is not None:
        region_arrays["labels"] = np.array(regions.labels)
    return region_arrays


def npz_bytes(arrays: Mapping[str, Any]) -> bytes:
    """A compressed .npz file with these arrays."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def write_npz_regions(folder: Path, images: Iterable[tuple[str, Regions]], *, half: bool = True) -> int:
    """Write each image's regions to NAME.npz in a folder.

    Args:
        folder: created if necessary.
        images: name and regions of each image; consumed one at a time.
        half: features in float16, about three digits, as UNITER stores them.

    Returns:
        The number of images.
    """
    image_count = 0
    folder.mkdir(parents=True, exist_ok=True)
    for image_name, image_regions in images:
        if Path(image_name).name != image_name:
            raise InputError(f"regions: {image_name!a} cannot be the name of a file; give each image a plain name")
        with atomic_file(folder / f"{image_name.removesuffix('.npz')}.npz") as file:
            file.write(npz_bytes(arrays_of(image_regions, half=half)))
        image_count += 1
    return image_count
