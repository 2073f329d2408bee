"""The made world: drawn pictures that are fully known, with captions, regions, errors and graded truth.

    world = World(split="train", size=1000, seed=0)   scenes by index; nothing is stored
    scene.render(), true_captions(scene, seed), scene.regions()
    wrong(scene, caption, "colour", rng)              the caption with one controlled error, or None
    truth(scene, caption.content).accuracy            the share of the caption's facts that hold

What can be drawn and said is listed in `capmeter.learning.world.vocabulary`.
"""

from __future__ import annotations

from capmeter.learning.world.captions import Truth, WorldCaption, true_captions, truth
from capmeter.learning.world.content import Content, Fact, Mention
from capmeter.learning.world.errors import CONTENT_ERRORS, ERRORS, errors_of, wrong
from capmeter.learning.world.folder import region_arrays, write_world
from capmeter.learning.world.scenes import Group, Look, Regions, Scene
from capmeter.learning.world.vocabulary import words
from capmeter.learning.world.world import World, parse_world

__all__ = [
    "CONTENT_ERRORS",
    "ERRORS",
    "Content",
    "Fact",
    "Group",
    "Look",
    "Mention",
    "Regions",
    "Scene",
    "Truth",
    "World",
    "WorldCaption",
    "errors_of",
    "parse_world",
    "region_arrays",
    "true_captions",
    "truth",
    "words",
    "write_world",
    "wrong",
]
