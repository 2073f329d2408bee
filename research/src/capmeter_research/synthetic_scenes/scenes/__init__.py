"""Synthetic scenes: rendered images with known content, with captions, regions, errors and graded truth.

    world = World(split="train", size=1000, seed=0)   scenes by index; nothing is stored
    scene.render(), true_captions(scene, seed), scene.regions()
    wrong(scene, caption, "colour", rng)              the caption with one controlled error, or None
    truth(scene, caption.content).accuracy            the share of the caption's facts that hold

What can be drawn and said is listed in `capmeter_research.synthetic_scenes.scenes.vocabulary`.
"""

from __future__ import annotations

from capmeter_research.synthetic_scenes.scenes.captions import Truth, WorldCaption, true_captions, truth
from capmeter_research.synthetic_scenes.scenes.content import Content, Fact, GroupMention
from capmeter_research.synthetic_scenes.scenes.errors import CONTENT_ERRORS, ERRORS, make_errors, wrong
from capmeter_research.synthetic_scenes.scenes.folder import region_arrays, write_world
from capmeter_research.synthetic_scenes.scenes.scenes import Group, Look, Scene, SceneRegions
from capmeter_research.synthetic_scenes.scenes.vocabulary import words
from capmeter_research.synthetic_scenes.scenes.world import World, parse_world

__all__ = [
    "CONTENT_ERRORS",
    "ERRORS",
    "Content",
    "Fact",
    "Group",
    "Look",
    "GroupMention",
    "SceneRegions",
    "Scene",
    "Truth",
    "World",
    "WorldCaption",
    "make_errors",
    "parse_world",
    "region_arrays",
    "true_captions",
    "truth",
    "words",
    "write_world",
    "wrong",
]
