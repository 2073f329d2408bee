"""What the world encoder is trained on: drawn pictures, and what is known of them as arrays."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from capmeter_recipes.synthetic_scenes.encoder.encoder import Pixels, resized
from capmeter_recipes.synthetic_scenes.scenes.scenes import Scene
from capmeter_recipes.synthetic_scenes.scenes.shards import render_shards
from capmeter_recipes.synthetic_scenes.scenes.vocabulary import BACKGROUNDS, COLOURS, KINDS, RELATIONS, SIZES, TEXTURES
from capmeter_recipes.synthetic_scenes.scenes.world import Split, World

LABELS = (*KINDS, *BACKGROUNDS)
"""The labels of regions: kinds, then backgrounds (of the whole picture)."""
ATTRIBUTES = {"colour": tuple(COLOURS), "texture": ("", *TEXTURES), "size": ("", *SIZES)}
MOST_GROUPS, MOST_REGIONS = 4, 21
SHARD = 500
"""Scenes per shard: shard k is a world of its own, with the seed `seed + k`, so shards can be drawn side by side."""
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
    """So many pictures of a split; the same ones for any number of workers."""
    shards = render_shards(_shard, split, count, seed, shard=SHARD, workers=workers)
    return SceneExamples(
        pixels=np.concatenate([each.pixels for each in shards]),
        background=np.concatenate([each.background for each in shards]),
        regions=np.concatenate([each.regions for each in shards]),
        what=np.concatenate([each.what for each in shards]),
        groups=np.concatenate([each.groups for each in shards]),
        centres=np.concatenate([each.centres for each in shards]),
        relations=np.concatenate([each.relations for each in shards]),
        digest=hashlib.sha256("".join(each.digest for each in shards).encode()).hexdigest(),
    )


def _shard(world: World) -> SceneExamples:
    n = len(world)
    examples = SceneExamples(
        pixels=np.stack([resized(np.asarray(scene.render())) for scene in world]),
        background=np.array([list(BACKGROUNDS).index(scene.background) for scene in world], np.int64),
        regions=np.zeros((n, MOST_REGIONS, 4), np.float32),
        what=np.full((n, MOST_REGIONS, 4), -1, np.int64),
        groups=np.full((n, MOST_GROUPS, 5), -1, np.int64),
        centres=np.zeros((n, MOST_GROUPS, 2), np.float32),
        relations=np.full((n, MOST_GROUPS, MOST_GROUPS, len(RELATIONS)), -1, np.int8),
        digest=hashlib.sha256("".join(scene.key for scene in world).encode()).hexdigest(),
    )
    for row, scene in enumerate(world):
        _describe(scene, examples, row)
    return examples


def _describe(scene: Scene, examples: SceneExamples, row: int) -> None:
    regions = scene.regions()
    count = len(regions.labels)
    examples.regions[row, :count] = regions.boxes / scene.pixels
    for k, (label, group_index) in enumerate(zip(regions.labels, regions.groups.tolist(), strict=True)):
        attributes = _attributes(scene, group_index) if group_index >= 0 else [-1, -1, -1]
        examples.what[row, k] = [LABELS.index(label), *attributes]
    for group_index, group in enumerate(scene.groups):
        examples.groups[row, group_index] = [
            LABELS.index(group.look.kind),
            group.look.count,
            *_attributes(scene, group_index),
        ]
        x0, y0, x1, y1 = group.box
        examples.centres[row, group_index] = (x0 + x1) / 2, (y0 + y1) / 2
        for other in range(len(scene.groups)):
            if other != group_index:
                relation_labels = [scene.relation(group_index, name, other) for name in RELATIONS]
                examples.relations[row, group_index, other] = [
                    -1 if each is None else int(each) for each in relation_labels
                ]


def _attributes(scene: Scene, group: int) -> list[int]:
    look = scene.groups[group].look
    return [values.index(getattr(look, name)) for name, values in ATTRIBUTES.items()]
