"""Pictures to learn from and to caption: their regions and, where they have any, their captions.

From synthetic scenes, or from captions and regions in files (COCO with bottom-up-attention's regions).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.core.errors import InputError
from capmeter.core.messages import format_count
from capmeter.core.progress import task
from capmeter.images.regions import regions_at
from capmeter_research.common.region_files import BoxRule, FileBank, MemoryBank, RegionBank, find_regions
from capmeter_research.synthetic_scenes.encoder.encoder import WorldEncoder, resized
from capmeter_research.synthetic_scenes.scenes import World, true_captions

CAPTIONS = 5
RULE = BoxRule(conf_th=0.0, min_boxes=1, max_boxes=100)
"""All regions of a file, up to 100."""
_HELD_OUT_PERCENT = 3
_AT_ONCE = 32


@dataclass(frozen=True, eq=False)
class CaptionedImages:
    """Pictures.

    Args:
        ids: their names.
        captions: of each picture; none where they are not known.
        bank: their regions; `rows` are their numbers in it.
        rows: int64 [n].
    """

    ids: tuple[str, ...]
    captions: tuple[tuple[str, ...], ...]
    bank: RegionBank
    rows: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def references(self) -> dict[str, tuple[str, ...]]:
        """The captions of each picture, by its name."""
        return dict(zip(self.ids, self.captions, strict=True))

    @property
    def digest(self) -> str:
        """A hash of names and captions."""
        return hashlib.sha256(json.dumps([self.ids, self.captions]).encode("ascii")).hexdigest()

    @property
    def features(self) -> int:
        """How many numbers a region has."""
        return int(self.regions(0)[0].shape[1])

    def regions(self, number: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Features [n, d] and positions [n, 7] of a picture's regions."""
        return self.bank.get(int(self.rows[number]))

    def take(self, numbers: Sequence[int]) -> CaptionedImages:
        """Some of the pictures."""
        return CaptionedImages(
            tuple(self.ids[picture_index] for picture_index in numbers),
            tuple(self.captions[picture_index] for picture_index in numbers),
            self.bank,
            self.rows[np.asarray(numbers, np.int64)],
        )

    def shuffled(self, seed: int = 0) -> CaptionedImages:
        """The same names and captions with the regions of other pictures: every picture has another's.

        Raises:
            InputError: there is only one picture.
        """
        if len(self) < 2:
            raise InputError("one picture cannot get the regions of another; expected at least two")
        picture_order = np.random.default_rng(seed).permutation(len(self))
        shuffled_rows = np.empty_like(self.rows)
        shuffled_rows[picture_order] = self.rows[np.roll(picture_order, 1)]
        return replace(self, rows=shuffled_rows)


def world_pictures(world: World, encoder: WorldEncoder) -> CaptionedImages:
    """The pictures of synthetic scenes with their true captions.

    The boxes are the scene's own, and stand in for a detector's. A region's features are what the encoder makes of the
    picture's pixels in its box; labels and attributes are not among them.
    """
    true_texts: list[tuple[str, ...]] = []
    features, boxes, picture_pixels = [], [], []
    with task("rendering synthetic scenes", total=len(world)) as advance:
        for scene_index in range(len(world)):
            scene = world[scene_index]
            true_texts.append(tuple(caption.text for caption in true_captions(scene, world.seed, CAPTIONS)))
            boxes.append(scene.regions().boxes / np.float32(world.pixels))
            picture_pixels.append(resized(np.asarray(scene.render(), np.uint8)))
            if len(picture_pixels) == _AT_ONCE or scene_index == len(world) - 1:
                features.append(_features(encoder, picture_pixels, boxes[-len(picture_pixels) :]))
                picture_pixels = []
            advance(1)
    bank = MemoryBank.from_arrays(features, boxes)
    return CaptionedImages(tuple(scene.id for scene in world), tuple(true_texts), bank, np.arange(len(world)))


def _features(encoder: WorldEncoder, pixels: Sequence[Any], boxes: Sequence[Any]) -> npt.NDArray[np.float32]:
    """The features of several pictures' regions, one after another."""
    import torch

    box_pictures = np.repeat(np.arange(len(boxes)), [len(picture_boxes) for picture_boxes in boxes])
    with torch.inference_mode():
        feature_maps = encoder.network.maps(torch.from_numpy(np.stack(pixels)).to(encoder.device))
        places = torch.from_numpy(np.concatenate(boxes).astype(np.float32)).to(encoder.device)
        region_features = encoder.network.regions(
            feature_maps, places, torch.from_numpy(box_pictures).to(encoder.device)
        )
    return np.asarray(region_features.cpu().numpy(), np.float32)


def file_pictures(references: Mapping[str, Sequence[str]], regions: str) -> CaptionedImages:
    """The pictures with captions whose regions are in a folder or an LMDB; others are left out.

    Args:
        references: captions by image.
        regions: the folder or the LMDB.

    Raises:
        InputError: no picture has regions, or a picture's captions are all empty.
    """
    images, bank = find_regions(references, regions, RULE)
    texts = {image: tuple(text for each in references[image] if (text := " ".join(each.split()))) for image in images}
    captionless_images = [image for image, captions in texts.items() if not captions]
    if captionless_images:
        have = format_count(len(captionless_images), "image has", "images have")
        raise InputError(f"{have} no caption that is not empty (the first: {captionless_images[0]!r})")
    return CaptionedImages(images, tuple(texts.values()), bank, np.arange(len(images)))


def uncaptioned_pictures(regions: str, images: Sequence[str] | None = None) -> CaptionedImages:
    """Pictures to caption.

    Args:
        regions: a folder or an LMDB.
        images: their names; None: all that have regions.

    Raises:
        InputError: an image has no regions.
    """
    source = regions_at(regions)
    image_ids = list(source) if images is None else list(images)
    keys = [source.find(image_id) for image_id in image_ids]
    absent = [image_id for image_id, key in zip(image_ids, keys, strict=True) if key is None]
    if absent or not image_ids:
        first = ", ".join(map(repr, absent[:5]))
        raise InputError(
            f"{regions}: {len(absent)} of {len(image_ids)} images have no regions here (the first: {first})"
        )
    bank = FileBank(regions, tuple(key for key in keys if key is not None), RULE)
    return CaptionedImages(
        tuple(image_id.removesuffix(".npz") for image_id in image_ids),
        ((),) * len(image_ids),
        bank,
        np.arange(len(image_ids)),
    )


def divided(pictures: CaptionedImages) -> tuple[CaptionedImages, CaptionedImages]:
    """Pictures to learn from, and three per cent that are held out, by a hash of their names.

    Raises:
        InputError: one part is empty.
    """
    is_held_out = [
        int(hashlib.sha256(image_id.encode()).hexdigest(), 16) % 100 < _HELD_OUT_PERCENT for image_id in pictures.ids
    ]
    parts = [[k for k, is_out in enumerate(is_held_out) if is_out is held_out] for held_out in (False, True)]
    if not all(parts):
        raise InputError(f"{len(pictures)} pictures are too few to hold some out; give more, or --held-out FILE")
    return pictures.take(parts[0]), pictures.take(parts[1])
