"""What the regions of a drawn picture look like: crops of one size, and the names of what is in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.learning.world import Scene
from capmeter.learning.world.vocabulary import BACKGROUNDS, COLOURS, KINDS, TEXTURES

SIDE = 24
"""Width and height of a crop."""
LABELS = (*KINDS, *BACKGROUNDS)
HEADS: dict[str, tuple[str, ...]] = {"label": LABELS, "colour": ("", *COLOURS), "texture": ("", *TEXTURES)}
"""What the region network names."""


@dataclass(frozen=True, eq=False)
class Crops:
    """The regions of pictures: uint8[n, 24, 24, 3], boxes float32[n, 4], what is in them, and each picture's share.

    names: int64[n, heads], numbers in `HEADS`. offsets: int64[pictures + 1].
    """

    pixels: npt.NDArray[np.uint8]
    boxes: npt.NDArray[np.float32]
    names: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]


def crops_of(scene: Scene) -> tuple[npt.NDArray[Any], npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """The crops of a scene's regions, their boxes relative to the picture, and the numbers of their names."""
    picture, regions = scene.render(), scene.regions()
    cut = [np.asarray(picture.resize((SIDE, SIDE), resample=2, box=tuple(box))) for box in regions.boxes.tolist()]
    names = []
    for label, attributes in zip(regions.labels, regions.attributes, strict=True):
        row = [LABELS.index(label)]
        for head in ("colour", "texture"):
            row.append(next((HEADS[head].index(each) for each in attributes if each in HEADS[head]), 0))
        names.append(row)
    return np.stack(cut), regions.boxes / np.float32(scene.pixels), np.array(names, np.int64)
