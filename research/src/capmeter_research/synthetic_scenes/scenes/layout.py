"""Sampling of synthetic scenes: first the content, then the positions.

`plan(rng)` samples the content: background, groups, at most one relation in which two of them touch.
`realise_plan(plan, rng)` finds positions without other overlaps, so that every object can be seen and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from capmeter_research.synthetic_scenes.scenes.backgrounds import VARIANTS
from capmeter_research.synthetic_scenes.scenes.figures import HAND
from capmeter_research.synthetic_scenes.scenes.scenes import Box, Contact, Group, Look, Scene, content_key
from capmeter_research.synthetic_scenes.scenes.vocabulary import BACKGROUNDS, COLOURS, KINDS, TEXTURES, Background, Kind

_GAP = 0.02
_TRIES = 60
_GROUPS = (0.1, 0.38, 0.36, 0.16)
_ROOM = (0.95, 0.62, 0.5, 0.4)
"""The width that one group may take where there are one, two, three, four."""
_MARKS = ("black", "white", "grey")
_HELD_BY = {"balloon": (0.5, 0.98), "umbrella": (0.6, 0.94), "flower": (0.5, 0.8)}
"""Where a thing is held, in parts of its box; others are held at the side."""
_SOLID = ("man", "woman", "dog", "cat", "horse", "elephant", "car", "bus", "truck", "tree", "house", "sofa", "lamp")
"""What hides, and is hidden, without becoming another thing."""

_GUESTS = frozenset(
    kind.name for kind in KINDS.values() if kind.stands and kind.size[0] <= 0.22 and kind.size[1] <= 0.23
)
_ROLES: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "on": (frozenset(kind.name for kind in KINDS.values() if kind.support is not None), _GUESTS),
    "inside": (frozenset(kind.name for kind in KINDS.values() if kind.cavity), _GUESTS),
    "holding": (
        frozenset(kind.name for kind in KINDS.values() if kind.category == "person"),
        frozenset(kind.name for kind in KINDS.values() if kind.held),
    ),
    "behind": (frozenset(_SOLID), frozenset(_SOLID)),
}
"""The kinds of hosts and of guests, by the relation in which they touch."""

Item = TypeVar("Item")


@dataclass(frozen=True)
class Plan:
    """What a picture will show. The first two looks are those that touch, if any do: the host, then the guest."""

    background: str
    looks: tuple[Look, ...]
    contact: str = ""

    @property
    def contacts(self) -> tuple[Contact, ...]:
        """The touching groups as (group, relation, group)."""
        if not self.contact:
            return ()
        return ((0, "holding", 1),) if self.contact == "holding" else ((1, self.contact, 0),)

    @property
    def key(self) -> str:
        """The key of the scene that will be made of it."""
        return content_key(self.background, list(self.looks), self.contacts)


def pick(rng: np.random.Generator, items: Sequence[Item], shares: Sequence[float] | None = None) -> Item:
    """One of the items at random.

    Args:
        rng: of the choice.
        items: to choose from.
        shares: the probability of each; None: equal ones.
    """
    uniform = rng.random()
    if shares is None:
        return items[int(uniform * len(items))]
    for item, share in zip(items, shares, strict=True):
        uniform -= share
        if uniform < 0:
            return item
    return items[-1]


def plan(rng: np.random.Generator) -> Plan:
    """The content of a picture."""
    background = pick(rng, tuple(BACKGROUNDS.values()))
    possible_kinds = [kind for kind in KINDS.values() if not {kind.name, kind.category} & set(background.excluded)]
    group_count = pick(rng, (1, 2, 3, 4), _GROUPS)
    contact = ""
    chosen_kinds: list[Kind] = []
    if group_count > 1 and rng.random() < 0.6:
        contact, chosen_kinds = _touching(rng, possible_kinds)
    while len(chosen_kinds) < group_count:
        kind = pick(rng, possible_kinds)
        if kind not in chosen_kinds:
            chosen_kinds.append(kind)
    free_extent = (_ROOM[len(chosen_kinds) - 1], 1.0)
    count_limit = 2 if len(chosen_kinds) == 4 else 5
    group_looks: list[Look] = []
    for index, kind in enumerate(chosen_kinds):
        largest_count = count_limit if index > 1 or not contact or (index == 1 and contact in ("on", "inside")) else 1
        if index == 1 and contact in ("on", "inside"):
            group_looks.append(_look(rng, kind, background, _room_at(group_looks[0], contact), largest_count))
        else:
            group_looks.append(_look(rng, kind, background, free_extent, largest_count))
    return Plan(background.name, tuple(group_looks), contact)


def _room_at(host_look: Look, contact: str) -> tuple[float, float]:
    """The width and height that a host leaves to its guests."""
    host_width, host_height = host_look.extent
    if contact == "on":
        return 0.94 * host_width, 0.3
    x0, y0, x1, y1 = host_look.of_kind.cavity or (0.0, 0.0, 1.0, 1.0)
    return (x1 - x0) * host_width - 0.01, (y1 - y0) * host_height - 0.01


def _touching(rng: np.random.Generator, possible_kinds: list[Kind]) -> tuple[str, list[Kind]]:
    """A relation and its host and guest; nothing if the background has none for it."""
    contact = pick(rng, tuple(_ROLES))
    host_names, guest_names = _ROLES[contact]
    host_kinds = [kind for kind in possible_kinds if kind.name in host_names]
    if not host_kinds:
        return "", []
    host_kind = pick(rng, host_kinds)
    guest_kinds = [kind for kind in possible_kinds if kind.name in guest_names and kind is not host_kind]
    return (contact, [host_kind, pick(rng, guest_kinds)]) if guest_kinds else ("", [])


def role_kinds(scene: Scene, group: int) -> frozenset[str] | None:
    """The kinds that can do what a group does in a relation where groups touch; None if it touches none."""
    for a, relation_name, b in scene.contacts:
        if group in (a, b):
            return _ROLES[relation_name][(group == a) == (relation_name != "holding")]
    return None


def _look(rng: np.random.Generator, kind: Kind, background: Background, room: tuple[float, float], most: int) -> Look:
    """A look whose things have room side by side. Everything is drawn uniformly, so that errors can be as likely."""
    texture = pick(rng, tuple(TEXTURES)) if rng.random() < 0.3 and not kind.untextured else ""
    small_size = "" if texture else "small"  # too small to show a texture
    possible_sizes = [size for size in ("", small_size, "large") if _fits(kind, size, room)]
    size = pick(rng, possible_sizes, [0.6, 0.2, 0.2][: len(possible_sizes)]) if possible_sizes else "small"
    colour = pick(rng, colours(background, texture))
    most = max(1, sum(_fits(kind, size, room, thing_count) for thing_count in range(1, min(kind.many, most) + 1)))
    most = most if rng.random() < 0.6 else 1
    return Look(kind.name, colour, texture, size, 1 + int(rng.random() * most), most, len({*possible_sizes}) == 3)


def colours(background: Background, texture: str) -> list[str]:
    """The colours that a thing can have there; those of a texture's marks are kept from things with a texture."""
    return [each for each in COLOURS if each not in background.hidden and not (texture and each in _MARKS)]


def _fits(kind: Kind, size: str, free_extent: tuple[float, float], thing_count: int = 1) -> bool:
    thing_width, thing_height = Look(kind.name, "", size=size).extent
    return thing_count * (thing_width + _GAP) - _GAP <= free_extent[0] and thing_height <= free_extent[1]


def realise_plan(what: Plan, rng: np.random.Generator, *, id: str = "", pixels: int = 96) -> Scene | None:
    """The scene with this content; None if there is no room for it.

    Args:
        what: background, objects and their contacts.
        rng: of positions and of the background's variant.
        id: of the scene.
        pixels: width and height of its picture.
    """
    background = BACKGROUNDS[what.background]
    for _ in range(_TRIES):
        groups: list[Group] = []
        for group_index, look in enumerate(what.looks):
            if group_index == 1 and what.contact:
                new_group = _touch(rng, groups[0], look, what.contact, background)
                other_groups = groups[1:]
            else:
                neighbour_group = groups[-1] if groups and rng.random() < 0.3 else None
                new_group = _free(rng, look, background, neighbour_group, what.contact if group_index == 0 else "")
                other_groups = groups
            if new_group is None or not _room_for(new_group, other_groups):
                break
            groups.append(new_group)
        else:
            contacts = what.contacts
            if what.contact == "behind":  # what is in front is drawn after what is behind it
                groups[:2] = groups[1::-1]
                contacts = ((0, "behind", 1),)
            return Scene(id, what.background, int(rng.random() * VARIANTS), tuple(groups), contacts, pixels)
    return None


def _room_for(group: Group, other_groups: Sequence[Group]) -> bool:
    if not all(min(box) >= 0.005 and max(box) <= 0.995 for box in group.boxes):
        return False
    gap = 0.75 * _GAP
    return all(
        a[2] + gap <= b[0] or b[2] + gap <= a[0] or a[3] + gap <= b[1] or b[3] + gap <= a[1]
        for other_group in other_groups
        for b in other_group.boxes
        for a in group.boxes
    )


def _free(
    rng: np.random.Generator, look: Look, background: Background, neighbour: Group | None, host_relation: str
) -> Group | None:
    kind, (thing_width, thing_height) = look.of_kind, look.extent
    stands = kind.stands and (bool(host_relation) or not kind.aloft or rng.random() < 0.5)
    row_width = look.count * (thing_width + _GAP) - _GAP
    mirrored = rng.random() < 0.5
    if neighbour is not None and neighbour.stands == stands:
        row_left = (
            neighbour.box[2] + rng.uniform(0.02, 0.07)
            if rng.random() < 0.5
            else neighbour.box[0] - rng.uniform(0.02, 0.07) - row_width
        )
        row_bottom = neighbour.box[3] + (0.0 if stands else rng.uniform(-0.02, 0.02))
    else:
        if row_width >= 0.99:
            return None
        row_left = rng.uniform(0.005, 0.995 - row_width)
        if background.ground is None:
            row_bottom = rng.uniform(thing_height + 0.01, 0.99)
        elif stands:
            row_bottom = rng.uniform(*background.ground)
        else:
            highest_top, lowest_bottom = background.sky
            if highest_top + thing_height > lowest_bottom:
                return None
            row_bottom = rng.uniform(highest_top + thing_height, lowest_bottom)
    if background.ground is None:
        stands = bool(host_relation) and host_relation == "behind"  # before a plain wall nothing has ground below it
    return Group(look, _row(rng, look, row_left, row_bottom, stands), stands, mirrored, host_relation == "holding")


def _row(rng: np.random.Generator, look: Look, row_left: float, row_bottom: float, is_level: bool) -> tuple[Box, ...]:
    """Boxes side by side; where they do not stand, at slightly different heights."""
    thing_width, thing_height = look.extent
    boxes = []
    for k in range(look.count):
        thing_left = row_left + k * (thing_width + _GAP)
        thing_bottom = row_bottom if is_level or look.count == 1 else row_bottom + rng.uniform(-0.03, 0.03)
        boxes.append((thing_left, thing_bottom - thing_height, thing_left + thing_width, thing_bottom))
    return tuple(boxes)


def _touch(rng: np.random.Generator, host: Group, look: Look, contact: str, background: Background) -> Group | None:
    x0, y0, x1, y1 = host.box
    thing_width, thing_height = look.extent
    row_width = look.count * (thing_width + _GAP) - _GAP
    mirrored, stands = rng.random() < 0.5, False
    if contact == "on":
        row_bottom = y0 + (host.look.of_kind.support or 0.0) * (y1 - y0) + 0.008
        side_margin = 0.03 * (x1 - x0)
        row_left = rng.uniform(x0 + side_margin, max(x0 + side_margin, x1 - side_margin - row_width))
    elif contact == "inside":
        a, b, c, d = host.look.of_kind.cavity or (0.0, 0.0, 1.0, 1.0)
        row_left = rng.uniform(x0 + a * (x1 - x0), max(x0 + a * (x1 - x0), x0 + c * (x1 - x0) - row_width))
        floor = y0 + d * (y1 - y0)
        row_bottom = floor if host.look.kind == "box" else floor - max(0.0, (d - b) * (y1 - y0) - thing_height) / 2
    elif contact == "holding":
        hand_x = x0 + (1 - HAND[0] if host.mirrored else HAND[0]) * (x1 - x0)
        hand_y = y0 + HAND[1] * (y1 - y0)
        at_x, at_y = _HELD_BY.get(look.kind, (0.12, 0.6))
        at_x, mirrored = (1 - at_x, True) if host.mirrored else (at_x, False)
        row_left, row_bottom = hand_x - at_x * thing_width, hand_y + (1 - at_y) * thing_height
    else:
        hidden_width = rng.uniform(0.3, 0.5) * min(thing_width, x1 - x0)
        row_left = x0 - thing_width + hidden_width if rng.random() < 0.5 else x1 - hidden_width
        row_bottom, stands = y1 - rng.uniform(0.03, 0.08), True
        if background.ground is not None and row_bottom < background.ground[0] - 0.04:
            return None
    return Group(look, _row(rng, look, row_left, row_bottom, True), stands, mirrored)
