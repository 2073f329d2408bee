"""The world encoder: shapes, boxes, resuming checkpoints; and that training reads the facts of pictures."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from capmeter_research.synthetic_scenes.scenes import World

from capmeter.core.checkpoints import Checkpoint
from capmeter.core.errors import AssetError, InputError

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from capmeter_research.synthetic_scenes.encoder.encoder import KIND, WorldEncoder, weights_of  # noqa: E402
from capmeter_research.synthetic_scenes.encoder.network import WorldNetwork, WorldShape  # noqa: E402

pytestmark = pytest.mark.neural
SHAPE = WorldShape(kinds=5, width=8, slot=4, described=8, region=16)


def checkpoint() -> Checkpoint:
    torch.manual_seed(0)
    return Checkpoint(KIND, {"shape": asdict(SHAPE)}, weights_of(WorldNetwork(SHAPE)))


def test_features_of_pictures_and_regions(tmp_path: Path) -> None:
    checkpoint().save(tmp_path)
    encoder = WorldEncoder(Checkpoint.read(tmp_path, KIND))
    scene = World(size=1)[0]
    pixels = np.asarray(scene.render())
    large = np.asarray(World(size=1, pixels=192)[0].render())
    output = encoder.pictures([pixels, large, pixels])
    assert output.shape == (3, 24) == (3, encoder.width) and np.allclose(output[0], output[2], atol=1e-6)
    assert not np.allclose(output[0], encoder.pictures([255 - pixels])[0])
    boxes = scene.regions().boxes
    regions = encoder.regions(pixels, boxes)
    assert regions.shape == (len(boxes), 16) and np.isfinite(regions).all()
    assert np.allclose(encoder.regions(pixels, boxes[::-1]), regions[::-1], atol=1e-6)
    assert encoder.regions(pixels, np.zeros((0, 4))).shape == (0, 16) and encoder.pictures([]).shape == (0, 24)


def test_a_region_sees_its_own_part_of_the_map() -> None:
    torch.manual_seed(1)
    network = WorldNetwork(SHAPE)
    maps = torch.zeros(1, 8, 24, 24)
    maps[0, :, 6:12, 12:18] = 1.0
    inside, outside = torch.tensor([[0.55, 0.3, 0.7, 0.45]]), torch.tensor([[0.0, 0.6, 0.3, 0.9]])
    location = torch.zeros(1, dtype=torch.int64)
    expected = torch.relu(network.region(torch.ones(1, 16 * 8)))
    assert torch.allclose(network.regions(maps, inside, location), expected, atol=1e-5)
    empty = torch.relu(network.region.bias)[None]
    assert torch.allclose(network.regions(maps, outside, location), empty, atol=1e-6)


def test_boxes_and_checkpoints_that_cannot_be_get_a_sentence() -> None:
    encoder = WorldEncoder(checkpoint())
    pixels = np.zeros((96, 96, 3), np.uint8)
    for boxes, message in (
        (np.zeros((2, 3)), "expected"),
        (np.array([[0, 0, np.nan, 4]]), "finite"),
        (np.array([[0, 0, 200, 4]]), "is outside"),
        (np.array([[50, 0, 20, 4]]), "ends before it begins"),
    ):
        with pytest.raises(InputError, match=message):
            encoder.regions(pixels, boxes)
    with pytest.raises(AssetError, match="not that of a world encoder"):
        WorldEncoder(Checkpoint(KIND, {"shape": {"kinds": 5}}, {}))
