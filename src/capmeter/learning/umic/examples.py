"""Examples for UMIC: true captions of pictures, and the regions of each picture.

From the made world, or from captions and regions in files (COCO with bottom-up-attention's regions).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from capmeter.captions.model import Caption, CaptionSet
from capmeter.errors import InputError
from capmeter.images.region_source import regions_at
from capmeter.images.regions import BoxRule, Regions
from capmeter.learning.lceval.examples import excluded, photo_of
from capmeter.learning.umic.shown import region_words
from capmeter.learning.world import World, true_captions
from capmeter.progress import task
from capmeter.transforms.tagged_words import tagged_words

Floats = npt.NDArray[np.float32]
_SCENES_AT_ONCE = 100
CAPTIONS = 5


class RegionEncoder(Protocol):
    """What gives features to regions: `capmeter.encoders.world.encoder.WorldEncoder`."""

    def regions(self, pixels: npt.NDArray[np.uint8], boxes: npt.NDArray[Any]) -> Floats:
        """float32 [n, d] of one picture's boxes, [n, 4] in pixels."""


class RegionBank(Protocol):
    """The regions of numbered pictures."""

    def get(self, picture: int) -> tuple[Floats, Floats]:
        """Features [n, d] and positions [n, 7] of a picture."""


@dataclass(frozen=True, eq=False)
class MemoryBank:
    """Regions in memory."""

    features: Floats
    positions: Floats
    offsets: npt.NDArray[np.int64]

    def get(self, picture: int) -> tuple[Floats, Floats]:
        """Features and positions of a picture."""
        place = slice(int(self.offsets[picture]), int(self.offsets[picture + 1]))
        return self.features[place], self.positions[place]


@dataclass(frozen=True, eq=False)
class FileBank:
    """Regions in files, read when they are asked for."""

    regions: str
    keys: tuple[str, ...]
    rule: BoxRule

    def get(self, picture: int) -> tuple[Floats, Floats]:
        """Features and positions of a picture."""
        found = regions_at(self.regions).read(self.keys[picture]).chosen(self.rule)
        return found.features, found.positions


@dataclass(frozen=True, eq=False)
class Examples:
    """True captions and their pictures' regions.

    captions: every caption is a row, whose references are all captions of its picture. picture: int64[n], each row's
    number in `bank`. tags: of sentences that are already tagged. shown: for each region of each picture, which of the
    words that name something visible are true of it, where that is known.
    """

    captions: CaptionSet
    picture: npt.NDArray[np.int64]
    bank: RegionBank
    tags: dict[str, tuple[str, ...]] = field(default_factory=dict)
    shown: tuple[tuple[frozenset[str], ...], ...] = ()

    def __len__(self) -> int:
        return len(self.captions)


def caption_set(texts: Iterable[tuple[str, Sequence[str]]], regions: str = "") -> CaptionSet:
    """A set in which every caption of every picture is a candidate, with all captions of the picture as references."""
    return CaptionSet.from_captions(
        (
            Caption(f"{image}#{k}", image, text, tuple(captions))
            for image, captions in texts
            for k, text in enumerate(captions)
        ),
        regions=regions,
    )


def file_examples(
    references: Mapping[str, tuple[str, ...]],
    regions: str,
    rule: BoxRule,
    exclusions: Mapping[str, frozenset[str]] | None = None,
) -> Examples:
    """Examples from captions by image and a folder or LMDB of regions; images without regions are left out.

    exclusions: numbers of photos of benchmarks by source, which are left out.

    Raises:
        InputError: no image has regions.
    """
    source = regions_at(regions)
    trained = [image for image in references if exclusions is None or not excluded(photo_of(image), exclusions)]
    keys = {image: key for image in trained if (key := source.find(image)) is not None}
    if not keys:
        raise InputError(f"{regions}: no image with captions has regions here; check how both name images")
    captions = caption_set((image, references[image]) for image in keys)
    number = {image: k for k, image in enumerate(keys)}
    picture = np.array([number[image] for image in captions.image_ids], np.int64)
    return Examples(captions, picture, FileBank(regions, tuple(keys.values()), rule))


def world_examples(world: World, encoder: RegionEncoder, workers: int = 1) -> tuple[Examples, str]:
    """The pictures of a made world with their true captions, and a digest of them.

    Boxes are known, and need no detector; the encoder gives their features. `workers` processes draw.
    """
    size = len(world)
    ranges = [(world, start, min(start + _SCENES_AT_ONCE, size)) for start in range(0, size, _SCENES_AT_ONCE)]
    list(world)  # scenes follow from one another: they are made here, once
    texts: list[tuple[str, tuple[str, ...]]] = []
    features, boxes = [], []
    shown: list[tuple[frozenset[str], ...]] = []
    tags: dict[str, tuple[str, ...]] = {}
    digest = hashlib.sha256()
    with processes(workers, _share, (world,)) as run, task("drawing the made world", total=size) as advance:
        for said, pictures, places, tagged, words in run(_drawn, ranges):
            texts += said
            features += [encoder.regions(each, place) for each, place in zip(pictures, places, strict=True)]
            boxes += [place / np.float32(world.pixels) for place in places]
            tags |= tagged
            shown += words
            digest.update(repr(said).encode() + b"".join(each.tobytes() for each in pictures))
            advance(len(said))
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum([len(each) for each in boxes])])
    regions = Regions(np.concatenate(features), np.concatenate(boxes))
    picture = np.repeat(np.arange(len(texts)), [len(each) for _, each in texts])
    bank = MemoryBank(regions.features, regions.positions, offsets)
    return Examples(caption_set(texts), picture, bank, tags, tuple(shown)), digest.hexdigest()


_shared: dict[str, Any] = {}


def _share(world: World) -> None:
    _shared["world"] = world


def _drawn(given: tuple[World, int, int]) -> tuple[Any, ...]:
    """Captions, pictures, boxes in pixels, tags, and words that are true of regions, of some scenes."""
    world, start, stop = given
    known: World = _shared.get("world", world)
    texts, pictures, boxes, words = [], [], [], []
    for index in range(start, stop):
        scene = known[index]
        texts.append((scene.id, tuple(each.text for each in true_captions(scene, known.seed, CAPTIONS))))
        pictures.append(np.asarray(scene.render(), np.uint8))
        boxes.append(scene.regions().boxes)
        words.append(region_words(scene))
    sentences = sorted({text for _, captions in texts for text in captions})
    return texts, pictures, boxes, dict(zip(sentences, tagged_words(sentences), strict=True)), words


@contextmanager
def processes(workers: int, share: Callable[..., None], given: tuple[Any, ...]) -> Iterator[Callable[..., Any]]:
    """A `map` over processes that inherit what is shared (nothing is pickled for them), or here with one worker."""
    if workers <= 1:
        share(*given)
        yield map
        return
    with ProcessPoolExecutor(workers, get_context("fork"), share, given) as pool:
        yield pool.map
