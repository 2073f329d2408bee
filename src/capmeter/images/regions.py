"""Regions of images: the features and boxes of a detector, from a folder of .npz files or what a package reads.

Files name the arrays as bottom-up-attention and UNITER do: `features` [n, d], `norm_bb` [n, 4 or more] (x1, y1, x2, y2
relative to the image, then width and height), `conf` [n], `soft_labels` [n, labels]; or `x` in place of `features`,
and `bbox` in pixels with `image_w` and `image_h` in place of `norm_bb`. Files are read
one image at a time; nothing is unpickled.

>>> regions = Regions(np.ones((2, 3), np.float32), np.array([[0, 0, 0.5, 1], [0.2, 0.2, 0.4, 0.6]], np.float32))
>>> [round(float(number), 2) for number in regions.positions[1, 4:]]
[0.2, 0.4, 0.08]

Anderson, He, Buehler, Teney, Johnson, Gould, Zhang: Bottom-Up and Top-Down Attention for Image Captioning and Visual
Question Answering. CVPR 2018.
"""

from __future__ import annotations

import functools
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.arrays import ZIP_ERRORS
from capmeter.core.errors import InputError
from capmeter.core.settings import home_path

Floats = npt.NDArray[np.float32]
MAX_BOXES = 1000
"""More boxes than any detector gives for an image; a file with more is damaged."""
MAX_BYTES = 1 << 26
"""The maximum unpacked size of one image's arrays."""
_BOX_TOLERANCE = 0.01  # detectors round boxes at the edge of an image


@dataclass(frozen=True, eq=False)
class Regions:
    """The regions of one image, in the order of the file (detectors write the most confident first).

    Attributes:
        features: float32 (regions, feature_dim).
        boxes: float32 (regions, 4), x1, y1, x2, y2 relative to the image.
        confidence: float32 (regions,), or None.
        labels: each region's label as text, or its number in the detector's list; None if the file has none.
    """

    features: Floats
    boxes: Floats
    confidence: Floats | None = None
    labels: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.features)

    @property
    def positions(self) -> Floats:
        """UNITER's box features, float32 (regions, 7): x1, y1, x2, y2, width, height, area."""
        box_sizes = self.boxes[:, 2:] - self.boxes[:, :2]
        return np.concatenate([self.boxes, box_sizes, box_sizes[:, :1] * box_sizes[:, 1:]], axis=1)

    def take(self, rows: npt.NDArray[Any]) -> Regions:
        """These regions, in this order."""
        return replace(
            self,
            features=self.features[rows],
            boxes=self.boxes[rows],
            confidence=None if self.confidence is None else self.confidence[rows],
            labels=None if self.labels is None else tuple(self.labels[k] for k in rows.tolist()),
        )


def regions_of(arrays: Mapping[str, Any], where: str) -> Regions:
    """The regions in an image's arrays, checked.

    Args:
        arrays: by the names of the files.
        where: file and image, for messages.

    Raises:
        InputError: an array is missing, or of a wrong shape or type, or holds NaN; says which, and what was expected.
    """
    features = _read_numbers(arrays, ("features", "x"), where)
    if features.ndim != 2 or not features.shape[1]:
        raise InputError(f"{where}: features have the shape {list(features.shape)}, expected [boxes, features]")
    if not 1 <= len(features) <= MAX_BOXES:
        raise InputError(
            f"{where}: {len(features):,} boxes, expected 1 to {MAX_BOXES:,}; extract the regions of this image again"
        )
    boxes = _read_boxes(arrays, len(features), where)
    confidence = None
    if "conf" in arrays:
        confidence = _read_numbers(arrays, ("conf",), where)
        if confidence.shape != (len(features),):
            raise InputError(f"{where}: conf has the shape {list(confidence.shape)}, expected [{len(features)}]")
    return Regions(features, boxes, confidence, _read_labels(arrays, len(features), where))


def _read_boxes(arrays: Mapping[str, Any], box_count: int, where: str) -> Floats:
    boxes = _read_numbers(arrays, ("norm_bb", "bbox", "boxes"), where)
    if boxes.ndim != 2 or len(boxes) != box_count or boxes.shape[1] < 4:
        raise InputError(f"{where}: boxes have the shape {list(boxes.shape)}, expected [{box_count}, 4 or more]")
    boxes = boxes[:, :4]
    if "norm_bb" not in arrays:
        image_width, image_height = (_read_numbers(arrays, (name,), where).ravel() for name in ("image_w", "image_h"))
        if image_width.shape != (1,) or image_height.shape != (1,) or min(image_width[0], image_height[0]) <= 0:
            raise InputError(f"{where}: image_w and image_h must be the image's size in pixels, for boxes in pixels")
        boxes = boxes / np.concatenate([image_width, image_height, image_width, image_height])
    is_inside = (boxes >= -_BOX_TOLERANCE).all() and (boxes <= 1 + _BOX_TOLERANCE).all()
    if not is_inside or (boxes[:, 2:] < boxes[:, :2]).any():
        raise InputError(
            f"{where}: a box is outside its image or ends before it begins; expected x1 <= x2 and y1 <= y2, from 0 "
            "to 1 (norm_bb), or in pixels with image_w and image_h (bbox)"
        )
    return boxes


def _read_labels(arrays: Mapping[str, Any], count: int, where: str) -> tuple[str, ...] | None:
    if "labels" in arrays:
        labels = np.asarray(arrays["labels"])
        if labels.dtype.kind not in "UiuS" or labels.shape != (count,):
            raise InputError(f"{where}: labels must be {count} texts or numbers, but are {labels.dtype}{labels.shape}")
        try:
            label_texts = labels.tolist()
        except (SystemError, ValueError) as error:  # Python's and numpy's errors on numbers that are not characters
            raise InputError(f"{where}: a label is not text ({error}); write the labels again") from error
        return tuple(text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text) for text in label_texts)
    if "soft_labels" in arrays:
        soft = _read_numbers(arrays, ("soft_labels",), where)
        if soft.ndim != 2 or len(soft) != count or soft.shape[1] < 2:
            raise InputError(f"{where}: soft_labels have the shape {list(soft.shape)}, expected [{count}, labels]")
        return tuple(map(str, (soft[:, 1:].argmax(axis=1) + 1).tolist()))  # label 0 is the background
    return None


def _read_numbers(arrays: Mapping[str, Any], array_names: tuple[str, ...], where: str) -> Floats:
    """The first array that has one of these names, in float32."""
    array_name = next((array_name for array_name in array_names if array_name in arrays), None)
    if array_name is None:
        other_names = ", ".join(sorted(map(str, arrays))[:8]) or "nothing"
        raise InputError(f"{where}: there is no array {' or '.join(array_names)}; it has {other_names}")
    try:
        array = np.asarray(arrays[array_name])
    except ValueError as error:
        raise InputError(f"{where}: {array_name} is not an array ({error}); extract the regions again") from error
    if array.dtype.kind not in "fiu":
        raise InputError(f"{where}: {array_name} holds {array.dtype}, expected numbers")
    with np.errstate(over="ignore"):
        numbers = array.astype(np.float32)
    if not np.isfinite(numbers).all():
        raise InputError(f"{where}: {array_name} holds NaN or infinite values; extract the regions of this image again")
    return numbers


ARRAYS = ("features", "x", "norm_bb", "bbox", "boxes", "image_w", "image_h", "conf", "soft_labels", "labels")


class _NpzRegions:
    """A folder of .npz files; the keys are the files' names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def names(self) -> Iterable[str]:
        """The names of the files, in order."""
        return sorted(path.name for path in self.folder.glob("*.npz"))

    def read(self, name: str) -> Regions:
        """The regions in a file."""
        path, where = self.folder / name, f"regions of {name!a} in {str(self.folder)!a}"
        try:
            with path.open("rb") as file:
                return regions_of(read_npz_arrays(file, where), where)
        except OSError as error:
            raise InputError(f"{where}: cannot be read ({error.strerror or error})") from error


def read_npz_arrays(file: BinaryIO, where: str) -> dict[str, Any]:
    """The arrays that describe regions in an open .npz file; others are not read, and nothing is unpickled."""
    try:
        with zipfile.ZipFile(file) as archive:
            unpacked_size = sum(member.file_size for member in archive.infolist())
        if unpacked_size > MAX_BYTES:
            raise InputError(f"{where}: unpacks to {unpacked_size:,} bytes, more than the {MAX_BYTES:,} supported")
        file.seek(0)
        with np.load(file, allow_pickle=False) as npz_arrays:
            return {array_name: npz_arrays[array_name] for array_name in ARRAYS if array_name in npz_arrays}
    except ZIP_ERRORS as error:
        if "allow_pickle" in str(error):
            raise InputError(f"{where}: holds pickled objects, which are never loaded; save plain arrays") from error
        raise InputError(
            f"{where}: damaged, truncated or not an .npz file ({error}); fetch or extract it again"
        ) from error


_IMAGE_SUFFIX = re.compile(r"\.(?:jpe?g|png|gif|webp|bmp|tiff?)$", re.IGNORECASE)
_NUMBERED = re.compile(r"[A-Za-z][A-Za-z0-9]*_(?:[A-Za-z]+\d*_)?0*(\d+)")  # COCO_val2014_000000391895, flickr30k_0017


class _RegionFile(Protocol):
    """A collection of regions, keyed by image; see `open_regions`."""

    @property
    def names(self) -> Iterable[str]:
        """The keys."""

    def read(self, name: str) -> Regions:
        """The regions under a key."""


class RegionSource:
    """The regions of many images by image id.

    An image id matches the key of that name, with or without a suffix; or the one key that ends in its number
    (`391895` matches `coco_val2014_000000391895.npz`).
    """

    def __init__(self, file: _RegionFile) -> None:
        self.file = file
        self._exact: dict[str, str] = {}
        names_by_number: dict[str, list[str]] = {}
        for name in file.names:
            self._exact[_stem(name)] = name
            if (photo_number := _photo_number(_stem(name))) is not None:
                names_by_number.setdefault(photo_number, []).append(name)
        self._numbered = {photo_number: names[0] for photo_number, names in names_by_number.items() if len(names) == 1}

    def __len__(self) -> int:
        return len(self._exact)

    def __iter__(self) -> Iterator[str]:
        return iter(self._exact.values())

    def find(self, image_id: str, image: str | None = None) -> str | None:
        """The key of this image, by its id, else by the name of its file; None if there is none."""
        for given_name in (image_id, image):
            if given_name is not None:
                stem = _stem(Path(given_name).name if given_name is image else given_name)
                photo_number = _photo_number(stem) or (stem.lstrip("0") if stem.isdecimal() else None)
                region_key = self._exact.get(stem) or (self._numbered.get(photo_number) if photo_number else None)
                if region_key is not None:
                    return region_key
        return None

    def read(self, name: str) -> Regions:
        """The regions under a key of `find`.

        Raises:
            InputError: they cannot be read or are not valid; the message names the image.
        """
        return self.file.read(name)


def open_regions(path: str | Path) -> RegionSource:
    """The regions in a folder of .npz files, or in a container that an installed package reads.

    A package adds a container through the entry point group `capmeter.region_files`, whose values are functions of the
    folder that return its `_RegionFile`, or None where the folder is something else.

    Raises:
        InputError: the path is none of these, or is damaged.
    """
    folder = home_path(path)
    if not folder.is_dir():
        raise InputError(f"regions {str(path)!a}: there is no such folder; expected a folder of .npz files")
    added_files = (entry.load()(folder) for entry in entry_points(group="capmeter.region_files"))
    region_source = RegionSource(next((file for file in added_files if file is not None), _NpzRegions(folder)))
    if not len(region_source):
        raise InputError(
            f"regions {str(path)!a}: no image in it; expected NAME.npz files, one per image, or what an installed "
            "package reads (an LMDB: capmeter-research)"
        )
    return region_source


def regions_at(path: str) -> RegionSource:
    """`open_regions`, once per process as long as the folder does not change."""
    try:
        modification_time = home_path(path).stat().st_mtime_ns
    except OSError:
        modification_time = 0
    return _open_once(path, modification_time)


@functools.lru_cache(maxsize=8)
def _open_once(path: str, modification_time: int) -> RegionSource:
    return open_regions(path)


def region_keys(captions: CaptionSet) -> list[str | None]:
    """For each caption the key of its image's regions, None where there are none."""
    if not captions.regions:
        return [None] * len(captions)
    source = regions_at(captions.regions)
    return [source.find(image_id, image) for image_id, image in zip(captions.image_ids, captions.images, strict=True)]


def _stem(name: str) -> str:
    return _IMAGE_SUFFIX.sub("", name.removesuffix(".npz"))


def _photo_number(stem: str) -> str | None:
    match = _NUMBERED.fullmatch(stem)
    return None if match is None else match.group(1)
