"""Examples for UMIC: true captions of pictures, and the regions of each picture.

From synthetic scenes, or from captions and regions in files (COCO with bottom-up-attention's regions).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.checkpoints import TrainingData
from capmeter.core.progress import task
from capmeter_research.common.benchmark_exclusions import Exclusions, identify_photo, is_excluded
from capmeter_research.common.forked_map import forked_map
from capmeter_research.common.keywords import tag_words
from capmeter_research.common.region_files import BoxRule, MemoryBank, RegionBank, find_regions
from capmeter_research.synthetic_scenes.encoder.encoder import WorldEncoder
from capmeter_research.synthetic_scenes.scenes import World, true_captions
from capmeter_research.synthetic_scenes.scenes.scenes import Scene
from capmeter_research.synthetic_scenes.scenes.vocabulary import KINDS, names, visible_words

CAPTIONS_PER_SCENE = 5
_SCENES_PER_JOB = 100


@dataclass(frozen=True, eq=False)
class RegionExamples:
    """True captions and their pictures' regions."""

    captions: CaptionSet  # every caption is a row, whose references are all captions of its picture
    picture: npt.NDArray[np.int64]  # (captions), the number of each caption's picture in `bank`
    bank: RegionBank  # the regions of the pictures
    # part-of-speech tags of captions that are already tagged
    tags: dict[str, tuple[str, ...]] = field(default_factory=dict)
    # for each picture and region, the words that are true of the region; empty if unknown
    visible_words: tuple[tuple[frozenset[str], ...], ...] = ()

    def __len__(self) -> int:
        return len(self.captions)


def build_caption_set(captions: Iterable[tuple[str, Sequence[str]]], regions: str = "") -> CaptionSet:
    """A set in which every caption of every picture is a candidate, with all captions of the picture as references."""
    return CaptionSet.from_captions(
        (
            Caption(f"{image_id}#{k}", image_id, text, tuple(texts))
            for image_id, texts in captions
            for k, text in enumerate(texts)
        ),
        regions=regions,
    )


def file_examples(
    references: Mapping[str, tuple[str, ...]], regions: str, rule: BoxRule, exclusions: Exclusions | None = None
) -> RegionExamples:
    """Examples from captions by image and a folder or LMDB of regions; images without regions are left out.

    Args:
        references: captions by image.
        regions: the folder or LMDB.
        rule: which boxes of an image are used.
        exclusions: numbers of benchmark photos by source, which are left out.

    Raises:
        InputError: no image has regions.
    """
    allowed_ids = [
        each for each in references if exclusions is None or not is_excluded(identify_photo(each), exclusions)
    ]
    image_ids, bank = find_regions(allowed_ids, regions, rule)
    captions = build_caption_set((image_id, references[image_id]) for image_id in image_ids)
    picture_numbers = {image_id: k for k, image_id in enumerate(image_ids)}
    caption_pictures = np.array([picture_numbers[image_id] for image_id in captions.image_ids], np.int64)
    return RegionExamples(captions, caption_pictures, bank)


class _RenderedScenes(NamedTuple):
    """Rendered scenes with what is known of them."""

    captions: list[tuple[str, tuple[str, ...]]]  # by image id
    pixels: list[npt.NDArray[np.uint8]]  # (height, width, 3)
    boxes: list[npt.NDArray[Any]]  # (regions, 4), in pixels
    tags: dict[str, tuple[str, ...]]  # part-of-speech tags by caption
    visible_words: list[tuple[frozenset[str], ...]]  # by region


@dataclass(frozen=True)
class _SceneRenderer:
    """Renders scenes of a world by their indices."""

    world: World

    def render(self, indices: range) -> _RenderedScenes:
        scenes = [self.world[index] for index in indices]
        scene_captions = [
            (scene.id, tuple(caption.text for caption in true_captions(scene, self.world.seed, CAPTIONS_PER_SCENE)))
            for scene in scenes
        ]
        distinct_sentences = sorted({text for _, texts in scene_captions for text in texts})
        return _RenderedScenes(
            scene_captions,
            [np.asarray(scene.render(), np.uint8) for scene in scenes],
            [scene.regions().boxes for scene in scenes],
            dict(zip(distinct_sentences, tag_words(distinct_sentences), strict=True)),
            [region_words(scene) for scene in scenes],
        )


def scene_examples(world: World, encoder: WorldEncoder, workers: int = 1) -> tuple[RegionExamples, str]:
    """Synthetic scenes with their true captions, and a digest of both.

    The boxes are known and need no detector.

    Args:
        world: the scenes.
        encoder: of the regions' features.
        workers: processes that render.
    """
    scene_count = len(world)
    list(world)  # scenes depend on those before them: they are generated here, once
    captions: list[tuple[str, tuple[str, ...]]] = []
    region_features, region_boxes = [], []
    tags: dict[str, tuple[str, ...]] = {}
    visible_words: list[tuple[frozenset[str], ...]] = []
    digest = hashlib.sha256()
    jobs = [range(start, min(start + _SCENES_PER_JOB, scene_count)) for start in range(0, scene_count, _SCENES_PER_JOB)]
    with (
        forked_map(_SceneRenderer(world).render, workers) as render,
        task("rendering synthetic scenes", total=scene_count) as advance,
    ):
        for part in render(jobs):
            captions += part.captions
            region_features += [encoder.regions(*pair) for pair in zip(part.pixels, part.boxes, strict=True)]
            region_boxes += [each / np.float32(world.pixels) for each in part.boxes]
            tags |= part.tags
            visible_words += part.visible_words
            digest.update(repr(part.captions).encode() + b"".join(each.tobytes() for each in part.pixels))
            advance(len(part.captions))
    picture = np.repeat(np.arange(len(captions)), [len(texts) for _, texts in captions])
    bank = MemoryBank.from_arrays(region_features, region_boxes)
    return RegionExamples(build_caption_set(captions), picture, bank, tags, tuple(visible_words)), digest.hexdigest()


@dataclass(frozen=True, eq=False)
class ExampleSplits:
    """The examples to train on, to select by, and to evaluate on."""

    train: RegionExamples
    dev: RegionExamples
    test: RegionExamples
    data: tuple[TrainingData, ...]  # where they come from


def build_scene_splits(
    sizes: tuple[int, int, int], encoder: WorldEncoder, *, seed: int = 0, workers: int = 1
) -> ExampleSplits:
    """Renders synthetic scenes and encodes their regions.

    Args:
        sizes: numbers of scenes for training, selection and test.
        encoder: of the regions.
        seed: of the scenes.
        workers: processes that render.
    """
    split_sizes = zip(("train", "dev", "test"), sizes, strict=True)
    worlds = [World(split=name, size=size, seed=seed) for name, size in split_sizes]  # type: ignore[arg-type]
    examples = [scene_examples(world, encoder, workers) for world in worlds]
    data = tuple(TrainingData(str(worlds[k]), examples[k][1], len(examples[k][0])) for k in (0, 1))
    train, dev, test = (split_examples for split_examples, _ in examples)
    return ExampleSplits(train, dev, test, data)


_ATTRIBUTES = ("colour", "texture", "size")


def region_words(scene: Scene) -> tuple[frozenset[str], ...]:
    """For each region of a scene, the words of `visible_words` that are true of it."""
    regions, words_by_value = scene.regions(), names()
    region_vocabularies = []
    for label, attributes in zip(regions.labels, regions.attributes, strict=True):
        words = words_by_value.get(("background", label), frozenset())
        if label in KINDS:
            words = words_by_value["kind", label] | words_by_value.get(("category", KINDS[label].category), frozenset())
        for value in attributes:
            words |= frozenset().union(*(words_by_value.get((name, value), frozenset()) for name in _ATTRIBUTES))
        region_vocabularies.append(words & visible_words())
    return tuple(region_vocabularies)
