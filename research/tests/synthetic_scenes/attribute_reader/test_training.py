"""The world reader: its table, and its training at a tiny size."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("PIL")

import torch
from capmeter_research.common.image_features import parse_feature_source
from capmeter_research.synthetic_scenes.attribute_reader.network import AttributeReaderShape, ReaderNetwork, heat_peaks
from capmeter_research.synthetic_scenes.attribute_reader.reader import WorldReader, load_world_reader
from capmeter_research.synthetic_scenes.attribute_reader.training import (
    WorldReaderRecipe,
    relation_loss,
    train_world_reader,
)
from capmeter_research.synthetic_scenes.encoder.encoder import load_world_encoder
from capmeter_research.synthetic_scenes.encoder.examples import draw_examples
from capmeter_research.synthetic_scenes.scenes import World
from capmeter_research.synthetic_scenes.scenes.vocabulary import BACKGROUNDS, COLOURS, KINDS, RELATIONS
from capmeter_research.synthetic_scenes.vectors import SceneTables

from capmeter.core.checkpoints import Checkpoint, load_checkpoint
from capmeter.core.errors import AssetError, InputError
from capmeter.core.settings import Settings
from capmeter.images.reading import DecodedImage

pytestmark = pytest.mark.neural
_BEFORE = ("behind", "in front of")


def test_peaks_are_the_highest_cells_around() -> None:
    heat = torch.full((1, 1, 4, 4), -9.0)
    heat[0, 0, 1, 2], heat[0, 0, 1, 1], heat[0, 0, 3, 0] = 2.0, 1.0, 0.0
    peaks = heat_peaks(heat)[0, 0]
    # (1, 1) lies beside a higher one; what lies level all around counts as a peak, far below
    assert torch.allclose(peaks[:2], torch.tensor([[0.8808, 0.5, 0.25], [0.5, 0.0, 0.75]]), atol=1e-4)
    assert (peaks[2:, 0] < 1e-3).all()


def _logit(share: float) -> float:
    return float(np.log(share / (1 - share)))


def test_the_table_by_hand() -> None:
    """Two kinds that are surely there, the first one right of the second; an attribute, one relation."""
    network = ReaderNetwork(
        AttributeReaderShape(slot=4, attributes=(3,), unsaid=(1,), relations=1, backgrounds=2, hidden=2)
    )
    with torch.no_grad():
        for values in network.parameters():
            values.zero_()
        network.inner.weight[:, :2] = torch.eye(2)  # the first two numbers of a slot
        network.presence.bias.fill_(30.0)
        network.attributes[0].bias[:] = torch.tensor([0.0, _logit(0.5), np.log(2.0)])  # 1/4, 1/4, 1/2
        network.centre.weight[:] = torch.eye(2)
        network.related.bias.fill_(_logit(0.3))
        network.background.bias[:] = torch.tensor([np.log(3.0), 0.0])
        slots = torch.tensor([[[0.6, 0.2, 0, 0], [0.5, 0.2, 0, 0], [0, 0, 0, 0]]])
        table = network.table(network(slots, torch.zeros(1, 2, 5, 3)))[0]
    right = 0.1 / 0.14
    rows = [[1, 0.25, 0.5, 0.3, right, 0], [1, 0.25, 0.5, 0.3, -right, 0]]
    highest = [1, 0.25, 0.5, 0.3, right, 0]
    assert torch.allclose(table, torch.tensor([*rows[0], *rows[1], *highest, 0.75, 0.25]), atol=1e-5)


def test_kinds_that_are_not_there_have_empty_rows() -> None:
    network = ReaderNetwork(AttributeReaderShape(slot=4, attributes=(3,), unsaid=(0,), relations=2, backgrounds=2))
    with torch.no_grad():
        network.presence.weight.zero_()
        network.presence.bias.fill_(-40.0)
        table = network.table(network(torch.randn(1, 9, 4), torch.rand(1, 8, 5, 3)))[0]
    assert table[:-2].abs().max() < 1e-9 and table[-2:].sum() == pytest.approx(1)


@pytest.mark.slow
def test_a_run_writes_a_reader_of_its_encoder(tmp_path: Path) -> None:
    encoder = load_world_encoder()
    before = {name: each.clone() for name, each in encoder.network.state_dict().items()}
    recipe = WorldReaderRecipe(epochs=4, pictures=48, held_out=16, batch=8, warmup=0.0)
    train, held_out = draw_examples("train", 48, 0), draw_examples("dev", 16, 0)
    outcome = train_world_reader(encoder, train, held_out, recipe, tmp_path)
    losses = [sum(line["losses"].values()) for line in outcome.history]
    assert losses[-1] < 0.8 * losses[0]
    reader = load_world_reader(str(tmp_path))
    assert all(torch.equal(each, before[name]) for name, each in encoder.network.state_dict().items())
    learned = reader.network.encoder.state_dict()
    assert not torch.allclose(learned["stem.weight"], before["stem.weight"], atol=1e-3)  # more than rounding
    pixels = [np.asarray(scene.render()) for scene in World(split="test", size=3)]
    tables = reader.pictures(pixels)
    assert tables.shape == (3, reader.width) and np.isfinite(tables).all()
    one = SceneTables(checkpoint=str(tmp_path)).encode(DecodedImage(pixels[1]), Settings())
    assert np.allclose(one, tables[1], atol=1e-5)
    none = replace(train, pixels=train.pixels[:0])
    with pytest.raises(InputError, match="0 pictures to train on and 16 held out"):
        train_world_reader(encoder, none, held_out, recipe, tmp_path)


def test_what_stands_before_what_counts_ten_times() -> None:
    """Three relations of one pair at chance: one false, one unclear; and *behind*, which is so."""
    names = list(RELATIONS)
    judgments = torch.full((1, len(names)), -1.0)
    judgments[0, names.index("on")], judgments[0, names.index("behind")] = 0, 1
    loss = relation_loss(torch.zeros(1, len(names)), judgments)
    assert float(loss) == pytest.approx((1 + 10) / 2 * np.log(2), rel=1e-6)
    judgments[0, names.index("behind")] = 0  # that nothing stands before anything counts once
    assert float(relation_loss(torch.zeros(1, len(names)), judgments)) == pytest.approx(np.log(2), rel=1e-6)


def test_weights_of_another_network_are_refused() -> None:
    shipped = load_checkpoint("world-reader", "world-reader")
    names = [name for name in shipped.weights if name.startswith("reader.")]
    other = Checkpoint(shipped.kind, shipped.parameters, {name: shipped.weights[name] for name in names})
    with pytest.raises(AssetError, match=r"not that of a world reader .*weight encoder\.place: expected the shape"):
        WorldReader(other)


def test_the_reader_that_ships_says_what_scenes_show() -> None:
    assert parse_feature_source("world-reader") == SceneTables()
    reader, world = load_world_reader(), World(split="test", size=160)
    shape = reader.network.reader.shape
    tables = reader.pictures([np.asarray(scene.render()) for scene in world])
    assert tables.shape == (160, reader.width)
    rows = tables[:, : len(KINDS) * shape.row].reshape(160, len(KINDS), shape.row)
    names, colours, relations = list(KINDS), list(COLOURS), list(RELATIONS)
    right: dict[str, list[bool]] = {
        name: [] for name in ("presence", "count", "colour", "relation", "before", "background")
    }
    for row, table, scene in zip(rows, tables, world, strict=True):
        kinds = {group.look.kind for group in scene.groups}
        right["presence"] += [(row[k, 0] > 0.5) == (name in kinds) for k, name in enumerate(names)]
        right["background"].append(
            int(table[-len(BACKGROUNDS) :].argmax()) == list(BACKGROUNDS).index(scene.background)
        )
        for a, group in enumerate(scene.groups):
            local = row[names.index(group.look.kind)]
            right["count"].append(int(local[1:6].argmax()) == group.look.count - 1)
            right["colour"].append(int(local[6:17].argmax()) == colours.index(group.look.colour))
            message = {
                name for b in range(len(scene.groups)) for name in RELATIONS if b != a and scene.relation(a, name, b)
            }
            stands = local[22:32]
            right["relation"] += [stands[relations.index(name)] > 0.5 for name in message]
            behind, in_front = (stands[relations.index(name)] for name in ("behind", "in front of"))
            right["before"] += [(behind > in_front) == (name == "behind") for name in message if name in _BEFORE]
    least = {"presence": 0.98, "count": 0.95, "colour": 0.93, "relation": 0.9, "before": 0.9, "background": 0.98}
    assert {name: bool(np.mean(each) >= least[name]) for name, each in right.items()} == dict.fromkeys(right, True)
