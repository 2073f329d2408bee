"""Regions in .npz files, one per picture: a folder is listed, and each file is read when its picture is asked for."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from capmeter.arrays import ZIP_ERRORS
from capmeter.atomic import atomic_file
from capmeter.errors import InputError
from capmeter.images.regions import MOST_BYTES, Regions, regions_of

ARRAYS = ("features", "x", "norm_bb", "bbox", "boxes", "image_w", "image_h", "conf", "soft_labels", "labels")


class NpzRegions:
    """A folder of .npz files; the keys are the files' names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def place(self) -> str:
        """The folder."""
        return str(self.folder)

    @property
    def names(self) -> Iterable[str]:
        """The names of the files, in order."""
        return sorted(path.name for path in self.folder.glob("*.npz"))

    def read(self, name: str) -> Regions:
        """The regions in a file."""
        path, place = self.folder / name, f"regions of {name!a} in {str(self.folder)!a}"
        try:
            with path.open("rb") as file:
                return regions_of(read_npz_arrays(file, place), place)
        except OSError as error:
            raise InputError(f"{place}: cannot be read ({error.strerror or error})") from error


def read_npz_arrays(file: BinaryIO, place: str) -> dict[str, Any]:
    """The arrays that describe regions in an open .npz file; others are not read, and nothing is unpickled."""
    try:
        with zipfile.ZipFile(file) as packed:
            size = sum(each.file_size for each in packed.infolist())
        if size > MOST_BYTES:
            raise InputError(f"{place}: unpacks to {size:,} bytes, more than the {MOST_BYTES:,} supported")
        file.seek(0)
        with np.load(file, allow_pickle=False) as saved:
            return {name: saved[name] for name in ARRAYS if name in saved}
    except ZIP_ERRORS as error:
        if "allow_pickle" in str(error):
            raise InputError(f"{place}: holds pickled objects, which are never loaded; save plain arrays") from error
        raise InputError(
            f"{place}: damaged, truncated or not an .npz file ({error}); fetch or extract it again"
        ) from error


def arrays_of(regions: Regions, *, half: bool = True) -> dict[str, Any]:
    """Regions as the arrays of a file, with the features in half precision as UNITER writes them."""
    found: dict[str, Any] = {
        "features": regions.features.astype(np.float16 if half else np.float32),
        "norm_bb": regions.positions[:, :6],
    }
    if regions.confidence is not None:
        found["conf"] = regions.confidence
    if regions.labels is not None:
        found["labels"] = np.array(regions.labels)
    return found


def npz_bytes(arrays: Mapping[str, Any]) -> bytes:
    """A compressed .npz file with these arrays."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def write_npz_regions(folder: Path, pictures: Iterable[tuple[str, Regions]], *, half: bool = True) -> int:
    """Writes each picture's regions to NAME.npz in a folder, as they come; returns their number.

    half: features in float16, about three digits, as UNITER stores them.
    """
    count = 0
    folder.mkdir(parents=True, exist_ok=True)
    for name, regions in pictures:
        if Path(name).name != name:
            raise InputError(f"regions: {name!a} cannot be the name of a file; give each picture a plain name")
        with atomic_file(folder / f"{name.removesuffix('.npz')}.npz") as file:
            file.write(npz_bytes(arrays_of(regions, half=half)))
        count += 1
    return count
