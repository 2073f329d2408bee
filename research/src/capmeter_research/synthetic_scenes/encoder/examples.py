"""What the world encoder is trained on: drawn pictures, and what is known of them as arrays."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from capmeter_research.synthetic_scenes.encoder.encoder import Pixels, resized
from capmeter_research.synthetic_scenes.scenes.scenes import Scene
from capmeter_research.synthetic_scenes.scenes.shards import render_shards
from capmeter_research.synthetic_scenes.scenes.vocabulary import BACKGROUNDS, COLOURS, KINDS, RELATIONS, SIZES, TEXTURES
from capmeter_research.synthetic_scenes.scenes.world import Split, World

LABELS = (*KINDS, *BACKGROUNDS)
"""The labels of regions: kinds, then backgrounds (of the whole picture)."""
ATTRIBUTES = {"colour": tuple(COLOURS), "texture": ("", *TEXTURES), "size": ("", *SIZES)}
MOST_GROUPS, MOST_REGIONS = 4, 21
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SceneExamples:
    """Pictures and what they show; -1 where there is nothing.

    pixels: uint8 [n, 96, 96, 3]. background: int [n]. regions: float32 [n, 21, 4], boxes relative to the picture, in
    the order of `Scene.regions`; what: int [n, 21, 4], each region's label, colour, texture and size. groups: int
    [n, 4, 5], each group's kind, count, colour, texture and size; centres: float32 [n, 4, 2]. relations: int8
    [n, 4, 4, 10], 1 for true, 0 for false, -1 for unclear.
    """

    pixels: Pixels
    background: Ints
    regions: npt.NDArray[np.float32]
    what: Ints
    groups: Ints
    centres: npt.NDArray[np.float32]
    relations: npt.NDArray[np.int8]
    digest: str = ""

    def __len__(self) -> int:
        return len(self.pixels)


def draw_examples(split: Split, count: int, seed: int, workers: int = 1) -> SceneExamples:
    """Pictures of a split; the same ones for any number of workers.

    Args:
        split: of the scenes.
        count: number of pictures.
        seed: of the scenes.
        workers: number of processes.
    """
    return render_shards(_shard, split, count, seed, workers=workers)


def _shard(world: World) -> SceneExamples:
    scene_count = len(world)
    examples = SceneExamples(
        pixels=np.stack([resized(np.asarray(scene.render())) for scene in world]),
        background=np.array([list(BACKGROUNDS).index(scene.background) for scene in world], np.int64),
        regions=np.zeros((scene_count, MOST_REGIONS, 4), np.float32),
        what=np.full((scene_count, MOST_REGIONS, 4), -1, np.int64),
        groups=np.full((scene_count, MOST_GROUPS, 5), -1, np.int64),
        centres=np.zeros((scene_count, MOST_GROUPS, 2), np.float32),
        relations=np.full((scene_count, MOST_GROUPS, MOST_GROUPS, len(RELATIONS)), -1, np.int8),
        digest=hashlib.sha256("".join(scene.key for scene in world).encode()).hexdigest(),
    )
    for scene_index, scene in enumerate(world):
        _describe(scene, examples, scene_index)
    return examples


def _describe(scene: Scene, examples: SceneExamples, scene_index: int) -> None:
    scene_regions = scene.regions()
    region_count = len(scene_regions.labels)
    examples.regions[scene_index, :region_count] = scene_regions.boxes / scene.pixels
    for k, (label, group_index) in enumerate(zip(scene_regions.labels, scene_regions.groups.tolist(), strict=True)):
        attribute_ids = _attributes(scene, group_index) if group_index >= 0 else [-1, -1, -1]
        examples.what[scene_index, k] = [LABELS.index(label), *attribute_ids]
    for group_index, group in enumerate(scene.groups):
        examples.groups[scene_index, group_index] = [
            LABELS.index(group.look.kind),
            group.look.count,
            *_attributes(scene, group_index),
        ]
        x0, y0, x1, y1 = group.box
        examples.centres[scene_index, group_index] = (x0 + x1) / 2, (y0 + y1) / 2
        for other_index in range(len(scene.groups)):
            if other_index != group_index:
                relation_labels = [scene.relation(group_index, name, other_index) for name in RELATIONS]
                examples.relations[scene_index, group_index, other_index] = [
                    -1 if relation_label is None else int(relation_label) for relation_label in relation_labels
                ]


def _attributes(scene: Scene, group_index: int) -> list[int]:
    look = scene.groups[group_index].look
    return [values.index(getattr(look, attribute_name)) for attribute_name, values in ATTRIBUTES.items()]
