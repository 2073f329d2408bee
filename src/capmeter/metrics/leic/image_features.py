"""Image features from a file, by image id: .npz with `image_ids` [n] and `features` [n, width]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from capmeter.arrays import read_npz
from capmeter.errors import InputError


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """The features of images: `features` (float32, [n, width]) and the row of each image."""

    path: Path
    rows: dict[str, int]
    features: npt.NDArray[np.float32]

    @property
    def width(self) -> int:
        """Numbers per image."""
        return int(self.features.shape[1])

    def find(self, images: Sequence[str]) -> npt.NDArray[np.float32]:
        """The features of these images; an `InputError` names the first that have none."""
        missing = [image for image in images if image not in self.rows]
        if missing:
            raise InputError(
                f"{self.path}: {len(missing)} images have no features; add them (the first: {', '.join(missing[:5])})"
            )
        found: npt.NDArray[np.float32] = self.features[[self.rows[image] for image in images]]
        return found


def read_features(path: str) -> FeatureTable:
    """The features in a file, read once."""
    place = Path(path).expanduser()
    try:
        stat = place.stat()
    except OSError as error:
        raise InputError(f"image features: {path}: {error.strerror}; expected an .npz file") from error
    return _read(place, (stat.st_size, stat.st_mtime_ns))


@lru_cache(maxsize=4)
def _read(path: Path, stamp: tuple[int, int]) -> FeatureTable:
    expected = f"{path}: expected an .npz file with `image_ids` [n] and `features` [n, width]"
    try:
        named, numbers = read_npz(str(path), "image_ids", "features")
        ids, features = [str(each) for each in named.ravel().tolist()], np.asarray(numbers, np.float32)
    except (ValueError, TypeError) as problem:
        raise InputError(f"{expected} ({problem})") from problem
    if features.ndim != 2 or len(features) != len(ids) or not np.isfinite(features).all():
        raise InputError(f"{expected}, all finite; got {len(ids)} ids and features of shape {features.shape}")
    return FeatureTable(path, {image: row for row, image in enumerate(ids)}, features)
