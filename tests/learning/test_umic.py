"""UMIC's training: the losses by hand, and a run on a few drawn pictures from data to a checkpoint that scores."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("PIL")

import capmeter  # noqa: E402
from capmeter.captions.io import load_references  # noqa: E402
from capmeter.checkpoints import Checkpoint  # noqa: E402
from capmeter.encoders.uniter import UniterShape, initial_weights  # noqa: E402
from capmeter.encoders.uniter_files import uniter_checkpoint  # noqa: E402
from capmeter.encoders.word_piece import WordPieceTokenizer  # noqa: E402
from capmeter.encoders.world.encoder import KIND, WorldEncoder, shape_to_dict, weights_of  # noqa: E402
from capmeter.encoders.world.network import WorldNetwork, WorldShape  # noqa: E402
from capmeter.errors import InputError  # noqa: E402
from capmeter.images.region_npz import write_npz_regions  # noqa: E402
from capmeter.images.regions import BoxRule, Regions  # noqa: E402
from capmeter.learning.umic.examples import file_examples  # noqa: E402
from capmeter.learning.umic.run import Start, evaluate_umic, train_umic, world_data  # noqa: E402
from capmeter.learning.umic.training import WORLD_RECIPE, UmicLearner, UmicModule, UmicRecipe  # noqa: E402
from capmeter.learning.world.vocabulary import KINDS  # noqa: E402
from capmeter.metrics.registry import parse  # noqa: E402
from capmeter.transforms.negatives import Negatives  # noqa: E402

SMALL = replace(WORLD_RECIPE, epochs=2, batches=3, batch=8)


@pytest.fixture(scope="module")
def world():
    torch.manual_seed(0)
    shape = WorldShape(len(KINDS), width=16, slot=8, described=8, region=64)
    checkpoint = Checkpoint(KIND, {"shape": shape_to_dict(shape)}, weights_of(WorldNetwork(shape)))
    return world_data((20, 10, 10), WorldEncoder(checkpoint))


def start(world, seed: int = 0) -> Start:
    return Start.random(tuple(world.train.captions.pool.sentences), 64, seed)


def learner(world, recipe: UmicRecipe) -> UmicLearner:
    begin = start(world)
    sampler = Negatives().sampler(world.train.captions, tags=world.train.tags)
    tokenizer = WordPieceTokenizer(begin.vocabulary, True)
    return UmicLearner(begin.weights, begin.shape, tokenizer, (world.train, sampler), (world.train, sampler), recipe)


def test_drawn_pictures_give_examples(world) -> None:
    assert len(world.train) == 100 and len(world.test) == 50
    assert not set(world.train.captions.image_ids) & set(world.test.captions.image_ids)
    features, positions = world.train.bank.get(3)
    assert features.shape[1] == 64 and positions.shape == (len(features), 7)
    np.testing.assert_allclose(positions[-1], [0, 0, 1, 1, 1, 1, 1])  # the last region is the whole picture
    assert world.data[0].examples == 100


def test_the_ranking_losses_are_those_of_scores_one_by_one(world) -> None:
    recipe = replace(SMALL, logits=0.5, matching=0.0, words=0.0, repeated=0.0)
    trained = learner(world, recipe)
    trained.module.eval()
    batch = trained.batches(0, np.random.default_rng(0))[0]
    assert len(batch.ids[0]) == 5, "a caption and four negatives"
    with torch.no_grad():
        losses = trained.losses(batch, np.random.default_rng(0))
        uniter, single, before = trained.module.uniter(0.0), [], []
        for row, texts in zip(batch.rows, batch.ids, strict=True):
            picture = world.train.picture[[row]]
            states = [trained._states(uniter, world.train, [ids], picture) for ids in texts]
            logits = torch.cat([uniter.head(uniter.pooled(each), "rank_output")[0] for each in states])
            scores = logits.sigmoid()
            single += (0.2 + scores[1:] - scores[0]).clamp(min=0).tolist()
            before += (1.0 + logits[1:] - logits[0]).clamp(min=0).tolist()
    assert float(losses["ranking"]) == pytest.approx(np.mean(single), abs=1e-6)
    assert float(losses["logits"]) == pytest.approx(0.5 * np.mean(before), abs=1e-6)


def test_every_weight_learns(world) -> None:
    trained = learner(world, SMALL)
    sum(trained.losses(trained.batches(0, np.random.default_rng(0))[0], np.random.default_rng(0)).values()).backward()
    without = {
        name for name, each in trained.module.named_parameters() if each.grad is None or not each.grad.abs().any()
    }
    assert without == {"parts.uniter:img_embeddings:mask_embedding:weight"}, "used in pretraining alone"


def test_a_run_ends_in_a_checkpoint_that_scores(world, tmp_path: Path) -> None:
    made = train_umic(start(world), world.train, world.dev, Negatives(), SMALL, tmp_path / "umic", data=world.data)
    found = Checkpoint.read(tmp_path / "umic", "uniter")
    assert found.sha256 == made.sha256 and found.training["negatives"] == "paper"
    assert "epoch" in found.selection and {"minus_loss", "above", "substitution"} <= set(found.scores)
    history = [json.loads(line) for line in (tmp_path / "umic" / "log.jsonl").read_text().splitlines()]
    assert max(line["scores"]["minus_loss"] for line in history) == pytest.approx(found.scores["minus_loss"], abs=1e-4)
    told = evaluate_umic(made, world.test, Negatives(), "cpu")
    assert {"hard", "swapped picture", "umic-c random"} <= set(told) and all(0 <= each <= 100 for each in told.values())
    captions = world.test.captions.select(range(5))
    pictures = {}
    for row, image in enumerate(captions.image_ids):
        features, positions = world.test.bank.get(int(world.test.picture[row]))
        pictures[image] = Regions(features, positions[:, :4])
    write_npz_regions(tmp_path / "regions", pictures.items(), half=False)
    captions.regions = str(tmp_path / "regions")
    name = str(parse(f'umic(checkpoint="{tmp_path / "umic"}")'))
    assert 0 < capmeter.score(captions, name)[name].score < 1


def test_a_run_is_a_function_of_its_seed(world, tmp_path: Path) -> None:
    shas = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        recipe = replace(SMALL, epochs=1, seed=seed)
        made = train_umic(
            start(world, seed), world.train, world.dev, Negatives(), recipe, tmp_path / name, data=world.data
        )
        shas.append(made.sha256)
    assert shas[0] == shas[1] != shas[2]


def test_half_precision_learns_the_same(world) -> None:
    trained = learner(world, SMALL)
    batch = trained.batches(0, np.random.default_rng(0))[0]
    with torch.no_grad():
        whole = trained.losses(batch, np.random.default_rng(0))
        with torch.autocast("cpu", torch.bfloat16):
            half = trained.losses(batch, np.random.default_rng(0))
    assert {name: float(loss) for name, loss in half.items()} == pytest.approx(
        {name: float(loss) for name, loss in whole.items()}, rel=0.03
    )


def test_fine_tuning_from_a_checkpoint_and_files(tmp_path: Path) -> None:
    """The head of matching becomes the ranking head, and heads of pretraining are dropped."""
    words = ("fast", "home", "away", "here")
    images = {str(k): (f"a dog runs {word}", f"two cats {word}") for k, word in enumerate(words, start=1)}
    random = np.random.default_rng(0)
    boxes = np.array([[0, 0, 1, 1], [0.2, 0.1, 0.5, 0.9]], np.float32)
    write_npz_regions(
        tmp_path / "regions", ((key, Regions(random.random((2, 6), np.float32), boxes)) for key in [*images, "extra"])
    )
    examples = file_examples(load_references(images | {"no regions": ("a",)}), str(tmp_path / "regions"), BoxRule())
    assert len(examples) == 8 and examples.bank.get(0)[0].shape == (2, 6)
    listed = {"coco": frozenset({"1", "3"}), "flickr30k": frozenset()}
    left = file_examples(load_references(images), str(tmp_path / "regions"), BoxRule(), listed)
    assert set(left.captions.image_ids) == {"2", "4"}, "photos of benchmarks are never trained on"
    with pytest.raises(InputError, match="no image with captions has regions"):
        file_examples({"x": ("a",)}, str(tmp_path / "regions"), BoxRule())
    vocabulary = Start.random(tuple(examples.captions.pool.sentences), 6, 0).vocabulary
    shape = UniterShape(len(vocabulary), 16, 1, 2, 32, 40, 6)
    weights = initial_weights(shape, 0)
    for part in ("weight", "bias"):
        del weights[f"rank_output.{part}"]
    weights["itm_output.bias"] += torch.tensor([0.25, 0.5])
    weights |= {name: torch.zeros(size) for name, size in shape.weights(7).items() if name not in weights}
    begin = Start.checkpoint(uniter_checkpoint(weights, shape, vocabulary, lowercase=True))
    assert torch.equal(begin.weights["rank_output.weight"], weights["itm_output.weight"][1:])
    assert begin.weights["rank_output.bias"].tolist() == [0.5]
    assert not any(name.startswith("cls.") for name in begin.weights)
    recipe = UmicRecipe(epochs=1, batches=2, batch=4, accumulate=2)
    made = train_umic(begin, examples, examples, Negatives(), recipe, tmp_path / "out", data=())
    moved = np.abs(made.weights["uniter.pooler.dense.weight"] - weights["uniter.pooler.dense.weight"].numpy())
    assert 0 < moved.max() < 1e-4, "a learning rate of 2e-6"


def test_weights_in_half_precision_are_trained_in_single_precision(world, tmp_path: Path) -> None:
    begin = start(world)
    made = uniter_checkpoint(begin.weights, begin.shape, begin.vocabulary, lowercase=True)
    half = replace(made, weights={name: array.astype(np.float16) for name, array in made.weights.items()})
    again = Start.checkpoint(half)
    assert {each.dtype for each in again.weights.values()} == {torch.float32}
    recipe = replace(SMALL, epochs=1, batches=1)
    trained = train_umic(again, world.train, world.dev, Negatives(), recipe, tmp_path, data=world.data)
    assert {each.dtype for each in trained.weights.values()} == {np.dtype(np.float32)}


def test_training_heads_are_not_published(world) -> None:
    begin = start(world)
    module = UmicModule(begin.weights, begin.shape)
    assert UmicModule.published(module.state_dict()).keys() == begin.weights.keys()
