"""The regions of many images by image id: `open_regions` reads a folder of .npz files, or what a package reads.

Files are read one image at a time; nothing is unpickled.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.images.region_npz import NpzRegions
from capmeter.images.regions import Regions

_IMAGE_SUFFIX = re.compile(r"\.(?:jpe?g|png|gif|webp|bmp|tiff?)$", re.IGNORECASE)
_NUMBERED = re.compile(r"[A-Za-z][A-Za-z0-9]*_(?:[A-Za-z]+\d*_)?0*(\d+)")  # COCO_val2014_000000391895, flickr30k_0017


class RegionFile(Protocol):
    """A collection of regions, keyed by image; see `open_regions`."""

    @property
    def location(self) -> str:
        """Where it is, for messages."""

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

    def __init__(self, file: RegionFile) -> None:
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
    folder that return its `RegionFile`, or None where the folder is something else.

    Raises:
        InputError: the path is none of these, or is damaged.
    """
    folder = Path(path).expanduser()
    if not folder.is_dir():
        raise InputError(f"regions {str(path)!a}: there is no such folder; expected a folder of .npz files")
    added_files = (entry.load()(folder) for entry in entry_points(group="capmeter.region_files"))
    region_source = RegionSource(next((file for file in added_files if file is not None), NpzRegions(folder)))
    if not len(region_source):
        raise InputError(
            f"regions {str(path)!a}: no image in it; expected NAME.npz files, one per image, or what an installed "
            "package reads (an LMDB: capmeter-research)"
        )
    return region_source


def regions_at(path: str) -> RegionSource:
    """`open_regions`, once per process as long as the folder does not change."""
    try:
        modification_time = Path(path).expanduser().stat().st_mtime_ns
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
