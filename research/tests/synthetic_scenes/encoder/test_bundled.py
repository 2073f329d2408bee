"""The world encoder that ships: what it says of scenes that it has never seen."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("PIL")

from capmeter_research.synthetic_scenes.encoder.encoder import load_world_encoder
from capmeter_research.synthetic_scenes.scenes import World
from capmeter_research.synthetic_scenes.scenes.vocabulary import KINDS


def test_slots_say_which_kinds_are_there() -> None:
    world, encoder = World(split="test", size=60), load_world_encoder()
    slots = encoder.pictures([np.asarray(scene.render()) for scene in world]).reshape(60, len(KINDS) + 1, -1)
    mask = np.array([[kind in {group.look.kind for group in scene.groups} for kind in KINDS] for scene in world])
    lengths = np.linalg.norm(slots[:, :-1], axis=2)
    assert lengths[mask].mean() > 4 * lengths[~mask].mean()
    # the largest slots of a picture are those of its kinds
    result = [
        set(np.argsort(-row)[: own.sum()]) == set(np.flatnonzero(own)) for row, own in zip(lengths, mask, strict=True)
    ]
    assert np.mean(result) > 0.65


def test_slots_are_whitened() -> None:
    """Over training pictures, the slots of kinds that are there have the identity as their second moment."""
    world, encoder = World(split="train", size=150), load_world_encoder()
    slots = encoder.pictures([np.asarray(scene.render()) for scene in world]).reshape(150, len(KINDS) + 1, -1)
    names = list(KINDS)
    own = np.array([slots[k, names.index(group.look.kind)] for k, scene in enumerate(world) for group in scene.groups])
    for values in (own, slots[:, -1]):
        moments = values.T @ values / len(values)
        assert np.abs(np.diag(moments) - 1).max() < 0.6 and np.abs(moments - np.diag(np.diag(moments))).max() < 0.5
