"""A scene of synthetic scenes: groups of things on a background, and what is true of them.

A *group* is one to five equal things side by side (three red balls). Kinds are distinct within a scene, so a noun names
one group. `Scene.relation(a, name, b)` judges a relation from the boxes alone: True, False, or None where people could
disagree; captions state what is True, and errors what is False.

Picture coordinates run from 0 (left, top) to 1 (right, bottom); regions are in pixels.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from capmeter_research.synthetic_scenes.scenes.drawing import Thing, draw
from capmeter_research.synthetic_scenes.scenes.vocabulary import KINDS, OPPOSITES, RELATIONS, SCALES, Kind

if TYPE_CHECKING:
    from PIL.Image import Image

Box = tuple[float, float, float, float]
Contact = tuple[int, str, int]
CONTACTS = ("on", "inside", "holding", "behind")
CLEAR = 0.14
"""Centres that lie this far apart are clearly to the left, or above; nearer than `EQUAL` they clearly are not."""
EQUAL = 0.02
_TOUCH = 0.025
_NEAR, _FAR = 0.1, 0.3


@dataclass(frozen=True)
class Look:
    """What a group is: its kind, colour, texture and size (`""`: plain, ordinary), and how many things it has.

    `most` is the largest number that it might have had: counts from 1 to `most` are equally frequent. `resizable` says
    that it could as well have been small as large.
    """

    kind: str
    colour: str
    texture: str = ""
    size: str = ""
    count: int = 1
    most: int = field(default=1, repr=False, compare=False)
    resizable: bool = field(default=False, repr=False, compare=False)

    @property
    def of_kind(self) -> Kind:
        """The entry of the vocabulary."""
        return KINDS[self.kind]

    @property
    def extent(self) -> tuple[float, float]:
        """Width and height of one thing."""
        size_scale = SCALES[self.size]
        return self.of_kind.size[0] * size_scale, self.of_kind.size[1] * size_scale


@dataclass(frozen=True)
class Group:
    """Equal things in a picture: their look, their boxes from left to right, and how they are drawn."""

    look: Look
    boxes: tuple[Box, ...]
    stands: bool
    mirrored: bool = False
    holds: bool = False

    @functools.cached_property
    def box(self) -> Box:
        """The box around all of them."""
        return (
            min(thing_box[0] for thing_box in self.boxes),
            min(thing_box[1] for thing_box in self.boxes),
            max(thing_box[2] for thing_box in self.boxes),
            max(thing_box[3] for thing_box in self.boxes),
        )


@dataclass(frozen=True, eq=False)
class SceneRegions:
    """The things of a picture: `boxes` (float32 [n, 4]: x0, y0, x1, y1 in pixels), what each one is, and its group.

    The last region is the whole picture; its label is the background.
    """

    boxes: npt.NDArray[np.float32]
    labels: tuple[str, ...]
    attributes: tuple[tuple[str, ...], ...]
    groups: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Scene:
    """A fully known picture.

    Args:
        id: its name in its data set.
        background: its background, and one of the background's variants.
        groups: what is seen, in the order in which it is drawn.
        contacts: the relations in which two groups touch, as (group, relation, group).
        pixels: width and height of the picture.
    """

    id: str
    background: str
    variant: int
    groups: tuple[Group, ...]
    contacts: tuple[Contact, ...] = ()
    pixels: int = 96
    _relation_cache: dict[tuple[int, str, int], bool | None] = field(
        default_factory=dict, init=False, repr=False, compare=False, hash=False
    )

    @property
    def key(self) -> str:
        """What the picture shows, without where it is: scenes with equal keys are the same content."""
        return content_key(self.background, [group.look for group in self.groups], self.contacts)

    def render(self) -> Image:
        """The picture (RGB)."""
        objects = [
            Thing(look.kind, look.colour, look.texture, box, group.mirrored, group.holds, group.stands)
            for group in self.groups
            for look in (group.look,)
            for box in group.boxes
        ]
        return draw(self.background, self.variant, objects, self.pixels)

    def regions(self) -> SceneRegions:
        """The box, label and attributes of every single thing, and of the whole picture."""
        box_rows = [(box, group_index) for group_index, group in enumerate(self.groups) for box in group.boxes]
        thing_looks = [self.groups[group_index].look for _, group_index in box_rows]
        region_boxes = [*(box for box, _ in box_rows), (0.0, 0.0, 1.0, 1.0)]
        return SceneRegions(
            np.array(region_boxes, np.float32) * np.float32(self.pixels),
            (*(look.kind for look in thing_looks), self.background),
            (*(tuple(filter(None, (look.colour, look.size, look.texture))) for look in thing_looks), ()),
            np.array([*(group_index for _, group_index in box_rows), -1], np.int64),
        )

    def relation(self, a: int, name: str, b: int) -> bool | None:
        """Whether a group stands in a relation to another; None if that is not clear from the picture.

        Args:
            a, b: numbers of the groups.
            name: of the relation.
        """
        relation_key = (a, name, b)
        if relation_key not in self._relation_cache:
            self._relation_cache[relation_key] = self._relation_label(*relation_key)
        return self._relation_cache[relation_key]

    def relations(self) -> list[Contact]:
        """Every relation that is clearly true, as (group, relation, group)."""
        places = range(len(self.groups))
        return [
            (a, name, b) for a in places for b in places if a != b for name in RELATIONS if self.relation(a, name, b)
        ]

    def _relation_label(self, a: int, relation_name: str, b: int) -> bool | None:
        if relation_name in ("right of", "below", "in front of"):
            return self.relation(b, OPPOSITES[relation_name], a)
        if relation_name in CONTACTS:
            return (a, relation_name, b) in self.contacts
        contact = next((each for each in self.contacts if {each[0], each[2]} == {a, b}), None)
        touching_relation = contact[1] if contact else None
        first_box, second_box = self.groups[a].box, self.groups[b].box
        if relation_name == "next to":
            return None if touching_relation else _beside(first_box, second_box)
        if touching_relation == "inside":
            return False
        if relation_name == "left of":
            return _before(first_box, second_box, 0, level=bool(touching_relation))
        both_stand = self.groups[a].stands and self.groups[b].stands
        return _before(first_box, second_box, 1, level=bool(touching_relation) or both_stand)


def content_key(background: str, looks: list[Look], contacts: tuple[Contact, ...] = ()) -> str:
    """A hash of what a picture shows; the order of groups does not matter.

    Args:
        background: its name.
        looks: of the groups.
        contacts: touching groups, by their numbers.
    """
    look_texts = sorted(map(repr, looks))
    touching_kinds = sorted((looks[a].kind, relation_name, looks[b].kind) for a, relation_name, b in contacts)
    return hashlib.blake2b(repr((background, look_texts, touching_kinds)).encode(), digest_size=8).hexdigest()


def _before(a: Box, b: Box, axis: int, *, level: bool) -> bool | None:
    """Whether box a lies before (left of, above) box b; `level` if only its falsehood can be clear."""
    centre_distance = (b[axis] + b[axis + 2] - a[axis] - a[axis + 2]) / 2
    if centre_distance <= EQUAL:
        return False
    side_distance = abs((b[1 - axis] + b[3 - axis] - a[1 - axis] - a[3 - axis]) / 2)
    is_clear = centre_distance >= CLEAR and a[axis + 2] <= b[axis] + _TOUCH and side_distance <= 1.2 * centre_distance
    return True if is_clear and not level else None


def _beside(a: Box, b: Box) -> bool | None:
    horizontal_gap = max(a[0], b[0]) - min(a[2], b[2])
    vertical_gap = max(a[1], b[1]) - min(a[3], b[3])
    if max(horizontal_gap, vertical_gap) >= _FAR:
        return False
    return True if 0 <= horizontal_gap <= _NEAR and vertical_gap <= -0.5 * min(a[3] - a[1], b[3] - b[1]) else None
