"""Training the world encoder, at a tiny size."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from capmeter_research.synthetic_scenes.encoder.examples import LABELS, draw_examples
from capmeter_research.synthetic_scenes.scenes import World
from capmeter_research.synthetic_scenes.scenes.vocabulary import BACKGROUNDS, COLOURS, RELATIONS

pytestmark = pytest.mark.neural


def test_examples_hold_what_the_scenes_show() -> None:
    examples = draw_examples("dev", 6, 3)
    for row, scene in enumerate(World(split="dev", size=6, seed=3)):
        regions = scene.regions()
        assert (examples.pixels[row] == np.asarray(scene.render())).all()
        assert np.allclose(examples.regions[row, : len(regions.labels)] * 96, regions.boxes, atol=1e-4)
        names = examples.what[row, : len(regions.labels)]
        assert [LABELS[k] for k in names[:, 0]] == list(regions.labels)
        assert [tuple(COLOURS)[k] for k in names[:-1, 1]] == [each[0] for each in regions.attributes[:-1]]
        assert (examples.what[row, len(regions.labels) :] == -1).all()
        assert list(BACKGROUNDS)[examples.background[row]] == scene.background
        for location, group in enumerate(scene.groups):
            assert LABELS[examples.groups[row, location, 0]] == group.look.kind
            assert examples.groups[row, location, 1] == group.look.count
        for a, name, b in scene.relations():
            assert examples.relations[row, a, b, list(RELATIONS).index(name)] == 1


@pytest.mark.slow
def test_a_run_writes_a_checkpoint_and_its_loss_falls(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from capmeter_research.synthetic_scenes.encoder.encoder import load_world_encoder
    from capmeter_research.synthetic_scenes.encoder.training import WorldEncoderRecipe, train_world_encoder

    recipe = WorldEncoderRecipe(epochs=6, pictures=32, held_out=8, batch=8, warmup=0.0)
    examples, held_out = draw_examples("train", 32, 0), draw_examples("dev", 8, 0)
    outcome = train_world_encoder(examples, held_out, recipe, tmp_path)
    totals = [sum(line["losses"].values()) for line in outcome.history]
    assert totals[-1] < 0.85 * totals[0]
    message = json.loads((tmp_path / "checkpoint.json").read_text())
    assert message["data"][0]["sha256"] == examples.digest and message["training"]["pictures"] == 32
    encoder = load_world_encoder(str(tmp_path))
    assert encoder.pictures([examples.pixels[0]]).shape == (1, encoder.width)
