"""Synthetic scenes as a data set: `world(split=train,size=1000,seed=0)` is a value, and its scenes follow from it.

Scenes are generated when they are first asked for. What a scene shows decides its split, so splits share no scene
whatever their seeds are; within a split all scenes show something different.

>>> test = World(split="test", size=3)
>>> len(test), test[0].key == World(split="test", size=500)[0].key, str(test)
(3, True, 'world(split=test,size=3)')
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

import numpy as np

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.errors import InputError
from capmeter.core.named import Named, read_parameters, split_name
from capmeter_research.synthetic_scenes.scenes.captions import WorldCaption, true_captions, truth
from capmeter_research.synthetic_scenes.scenes.errors import make_errors, make_graded
from capmeter_research.synthetic_scenes.scenes.layout import plan, realise_plan
from capmeter_research.synthetic_scenes.scenes.scenes import Scene

Split = Literal["train", "dev", "test"]
REFERENCES = 5
MOST_SCENES, MOST_PIXELS = 1_000_000, 2048
_GRADES = (1, 2, 3, 4)


@dataclass(frozen=True, kw_only=True)
class World(Named):
    """The scenes of a split: a sequence, whose scenes are generated in order and kept.

    Raises:
        InputError: a size, seed or number of pixels that cannot be.
    """

    NAME: ClassVar[str] = "world"
    SUMMARY: ClassVar[str] = "drawn scenes that are fully known, with captions, regions and controlled errors"

    split: Annotated[Split, "train (four fifths of all contents), dev or test (a tenth each)"] = "train"
    size: Annotated[int, "the number of scenes"] = 1000
    seed: Annotated[int, "the seed of everything"] = 0
    pixels: Annotated[int, "width and height of the pictures"] = 96

    def __post_init__(self) -> None:
        super().__post_init__()
        for field_name, low, high in (("size", 1, MOST_SCENES), ("seed", 0, 2**63), ("pixels", 32, MOST_PIXELS)):
            if not low <= getattr(self, field_name) <= high:
                raise InputError(f"world: {field_name}={getattr(self, field_name)} is not between {low:,} and {high:,}")

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Scene:
        if not -self.size <= index < self.size:
            raise IndexError(f"{self} has no scene {index}")
        return self._generator.scene(index % self.size)

    def __iter__(self) -> Iterator[Scene]:
        return (self._generator.scene(index) for index in range(self.size))

    @functools.cached_property
    def _generator(self) -> _Generator:
        return _Generator(self.split, self.seed, self.pixels)

    def captions(self, images: str = "images") -> CaptionSet:
        """Candidates of every scene, with five references each, and how much of each candidate holds.

        The systems are `true` (a true caption that is not a reference), one for every kind of error in this caption,
        `graded-1` … `graded-4` (a true caption with up to this many content errors) and `other` (a caption of another
        scene). The human score of a candidate is the share of its facts that hold, in [0, 1].

        Args:
            images: the folder of the pictures, as `capmeter scenes` writes them.
        """
        return CaptionSet.from_captions(
            Caption(
                id=f"{scene.id}#{system}",
                image_id=scene.id,
                candidate=caption.text,
                references=tuple(each.text for each in true_captions(scene, self.seed, REFERENCES)),
                image=f"{images}/{scene.id}.png",
                system=system,
                human=(truth(scene, caption.content).accuracy,),
            )
            for scene_index, scene in enumerate(self)
            for system, caption in self.candidates(scene_index).items()
        )

    def candidates(self, index: int) -> dict[str, WorldCaption]:
        """The candidates of one scene, by system; see `captions`."""
        scene = self[index]
        rng = np.random.default_rng([self.seed, index, _ROLE])
        correct_caption = true_captions(scene, self.seed, REFERENCES + 1)[REFERENCES]
        captions_by_system = {"true": correct_caption} | make_errors(scene, correct_caption, rng)
        captions_by_system |= {f"graded-{error_count}": make_graded(scene, rng, error_count) for error_count in _GRADES}
        if self.size > 1:
            other_scene = self[(index + 1 + int(rng.random() * (self.size - 1))) % self.size]
            captions_by_system["other"] = true_captions(other_scene, self.seed, REFERENCES + 1)[REFERENCES]
        return captions_by_system


_ROLE = 7  # so that candidates are drawn from other numbers than scenes


@dataclass
class _Generator:
    """Generates the scenes of one split, one after the other."""

    split: Split
    seed: int
    pixels: int
    _scenes: list[Scene] = field(default_factory=list)
    _keys: set[str] = field(default_factory=set)
    _scene_count: int = 0

    def scene(self, index: int) -> Scene:
        while len(self._scenes) <= index:
            rng = np.random.default_rng([self.seed, self._scene_count])
            self._scene_count += 1
            scene_plan = plan(rng)
            if split_of(scene_plan.key) == self.split and scene_plan.key not in self._keys:
                scene = realise_plan(scene_plan, rng, id=f"{self.seed}-{self._scene_count:06d}", pixels=self.pixels)
                if scene is not None:
                    self._keys.add(scene_plan.key)
                    self._scenes.append(scene)
        return self._scenes[index]


def split_of(key: str) -> Split:
    """The split of a content: by its hash."""
    part = int(key, 16) % 10
    return "test" if part == 0 else "dev" if part == 1 else "train"


def parse_world(text: str) -> World:
    """The world with this text form: `world(split=test,size=500)`.

    Raises:
        InputError: another name, or parameters that it does not have.
    """
    world_name, parameter_text = split_name(text, "set of synthetic scenes")
    if world_name != World.NAME:
        raise InputError(
            f"unknown set of synthetic scenes {world_name!r}; expected world, or world(split=…,size=…,seed=…,pixels=…)"
        )
    return World(**read_parameters(World, parameter_text, World.NAME))
