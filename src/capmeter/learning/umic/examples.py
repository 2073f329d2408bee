"""Examples for UMIC: true captions of pictures, and the regions of each picture.

From the made world, or from captions and regions in files (COCO with bottom-up-attention's regions).
"""

from __future__ import annotations

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
from capmeter.learning.umic.crops import Crops, crops_of
from capmeter.learning.world import World, true_captions
from capmeter.progress import task
from capmeter.transforms.tagged_words import tagged_words

Floats = npt.NDArray[np.float32]
_SCENES_AT_ONCE = 100
CAPTIONS = 5


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
    number in `bank`. tags: of sentences that are already tagged.
    """

    captions: CaptionSet
    picture: npt.NDArray[np.int64]
    bank: RegionBank
    tags: dict[str, tuple[str, ...]] = field(default_factory=dict)

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


@dataclass(frozen=True, eq=False)
class WorldPart:
    """The pictures of a made world: captions by scene, crops of their regions, and tags."""

    texts: tuple[tuple[str, tuple[str, ...]], ...]
    crops: Crops
    tags: dict[str, tuple[str, ...]]

    def examples(self, features: Floats) -> Examples:
        """The examples, with these features of the crops."""
        captions = caption_set(self.texts)
        picture = np.repeat(np.arange(len(self.texts)), [len(each) for _, each in self.texts])
        positions = Regions(features, self.crops.boxes).positions
        return Examples(captions, picture, MemoryBank(features, positions, self.crops.offsets), self.tags)


def world_part(world: World, workers: int = 1) -> WorldPart:
    """Draws the pictures of a world, with true captions and their tags; `workers` processes share the work."""
    size = len(world)
    ranges = [(world, start, min(start + _SCENES_AT_ONCE, size)) for start in range(0, size, _SCENES_AT_ONCE)]
    list(world)  # scenes follow from one another: they are made here, once
    made = []
    with processes(workers, _share, (world,)) as run, task("drawing the made world", total=size) as advance:
        for each in run(_drawn, ranges):
            made.append(each)
            advance(len(each[0]))
    counts = np.concatenate([each[1] for each in made])
    crops = Crops(
        np.concatenate([each[2] for each in made]),
        np.concatenate([each[3] for each in made]),
        np.concatenate([each[4] for each in made]),
        np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]),
    )
    tags = {text: tagged for each in made for text, tagged in each[5].items()}
    return WorldPart(tuple(text for each in made for text in each[0]), crops, tags)


_shared: dict[str, Any] = {}


def _share(world: World) -> None:
    _shared["world"] = world


def _drawn(given: tuple[World, int, int]) -> tuple[Any, ...]:
    world, start, stop = given
    known: World = _shared.get("world", world)
    texts, counts, crops = [], [], []
    for index in range(start, stop):
        scene = known[index]
        texts.append((scene.id, tuple(each.text for each in true_captions(scene, known.seed, CAPTIONS))))
        crops.append(crops_of(scene))
        counts.append(len(crops[-1][0]))
    sentences = sorted({text for _, captions in texts for text in captions})
    tags = dict(zip(sentences, tagged_words(sentences), strict=True))
    return texts, counts, *(np.concatenate([each[k] for each in crops]) for k in range(3)), tags


@contextmanager
def processes(workers: int, share: Callable[..., None], given: tuple[Any, ...]) -> Iterator[Callable[..., Any]]:
    """A `map` over processes that inherit what is shared (nothing is pickled for them), or here with one worker."""
    if workers <= 1:
        share(*given)
        yield map
        return
    with ProcessPoolExecutor(workers, get_context("fork"), share, given) as pool:
        yield pool.map
