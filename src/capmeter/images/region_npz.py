"""Regions in .npz files, one per image: a folder is listed, and each file is read on request."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from capmeter.core.arrays import ZIP_ERRORS
from capmeter.core.atomic import atomic_file
from capmeter.core.errors import InputError
from capmeter.images.regions import MAX_BYTES, Regions, regions_of

ARRAYS = ("features", "x", "norm_bb", "bbox", "boxes", "image_w", "image_h", "conf", "soft_labels", "labels")


class NpzRegions:
    """A folder of .npz files; the keys are the files' names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def location(self) -> str:
        """The folder."""
        return str(self.folder)

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


def arrays_of(regions: Regions, *, half: bool = True) -> dict[str, Any]:
    """Regions as the arrays of a file; half: with the features in half precision, as UNITER writes them."""
    region_arrays: dict[str, Any] = {
        "features": regions.features.astype(np.float16 if half else np.float32),
        "norm_bb": regions.positions[:, :6],
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
