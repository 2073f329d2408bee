"""UMIC's training: the losses by hand, and a run on a few synthetic scenes, from data to a checkpoint that scores."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("PIL")

import capmeter_research  # noqa: E402
from capmeter_research.common.region_files import BoxRule, write_npz_regions  # noqa: E402
from capmeter_research.papers.umic.pairs import load_pair_encoder  # noqa: E402
from capmeter_research.papers.umic.training.evaluation import score_pairs  # noqa: E402
from capmeter_research.papers.umic.training.examples import build_scene_splits, file_examples, scene_examples  # noqa: E402
from capmeter_research.papers.umic.training.negatives import Negatives  # noqa: E402
from capmeter_research.papers.umic.training.training import (  # noqa: E402
    SCENE_RECIPE,
    StartingPoint,
    UmicLearner,
    UmicModule,
    UmicRecipe,
    evaluate_umic,
    train_umic,
)
from capmeter_research.papers.umic.training.weights import initial_weights, uniter_checkpoint  # noqa: E402
from capmeter_research.papers.umic.uniter import UniterShape  # noqa: E402
from capmeter_research.papers.umic.word_piece import WordPieceTokenizer  # noqa: E402
from capmeter_research.synthetic_scenes.encoder.encoder import KIND, WorldEncoder, load_world_encoder, weights_of  # noqa: E402
from capmeter_research.synthetic_scenes.encoder.network import WorldNetwork, WorldShape  # noqa: E402
from capmeter_research.synthetic_scenes.scenes import World  # noqa: E402
from capmeter_research.synthetic_scenes.scenes.vocabulary import KINDS  # noqa: E402

import capmeter  # noqa: E402
from capmeter.captions.load import load_references  # noqa: E402
from capmeter.core.checkpoints import Checkpoint, load_checkpoint  # noqa: E402
from capmeter.core.errors import InputError  # noqa: E402
from capmeter.core.settings import Settings  # noqa: E402
from capmeter.evaluation.registry import parse  # noqa: E402
from capmeter.images.regions import Regions  # noqa: E402

SMALL = replace(SCENE_RECIPE, epochs=2, batches=3, batch=8)


@pytest.fixture(scope="module")
def scenes():
    torch.manual_seed(0)
    shape = WorldShape(len(KINDS), width=16, slot=8, described=8, region=64)
    checkpoint = Checkpoint(KIND, {"shape": asdict(shape)}, weights_of(WorldNetwork(shape)))
    return build_scene_splits((20, 10, 10), WorldEncoder(checkpoint))


def start(scenes, seed: int = 0) -> StartingPoint:
    return StartingPoint.random(tuple(scenes.train.captions.pool.sentences), 64, seed)


def learner(scenes, recipe: UmicRecipe) -> UmicLearner:
    initial = start(scenes)
    sampler = Negatives().sampler(scenes.train.captions, tags=scenes.train.tags)
    tokenizer = WordPieceTokenizer(initial.vocabulary, True)
    return UmicLearner(
        initial.weights, initial.shape, tokenizer, (scenes.train, sampler), (scenes.train, sampler), recipe
    )


def test_scenes_give_examples(scenes) -> None:
    assert len(scenes.train) == 100 and len(scenes.test) == 50
    assert not set(scenes.train.captions.image_ids) & set(scenes.test.captions.image_ids)
    features, positions = scenes.train.bank.get(3)
    assert features.shape[1] == 64 and positions.shape == (len(features), 7)
    np.testing.assert_allclose(positions[-1], [0, 0, 1, 1, 1, 1, 1])  # the last region is the whole picture
    assert scenes.data[0].examples == 100


def test_the_ranking_losses_are_those_of_scores_one_by_one(scenes) -> None:
    recipe = replace(SMALL, logit_weight=0.5, matching_weight=0.0, substitution_weight=0.0, repetition_weight=0.0)
    trained = learner(scenes, recipe)
    trained.module.eval()
    batch = trained.batches(0, np.random.default_rng(0))[0]
    assert len(batch.ids[0]) == 5, "a caption and four negatives"
    with torch.no_grad():
        losses = trained.losses(batch, np.random.default_rng(0))
        uniter, sigmoid_losses, logit_losses = trained.module.uniter(0.0), [], []
        for row, texts in zip(batch.rows, batch.ids, strict=True):
            picture = scenes.train.picture[[row]]
            states = [trained.pair_states(uniter, scenes.train, [ids], picture) for ids in texts]
            logits = torch.cat([uniter.head(uniter.pooled(each), "rank_output")[0] for each in states])
            scores = logits.sigmoid()
            sigmoid_losses += (0.2 + scores[1:] - scores[0]).clamp(min=0).tolist()
            logit_losses += (1.0 + logits[1:] - logits[0]).clamp(min=0).tolist()
    assert float(losses["ranking"]) == pytest.approx(np.mean(sigmoid_losses), abs=1e-6)
    assert float(losses["logits"]) == pytest.approx(0.5 * np.mean(logit_losses), abs=1e-6)


def test_every_weight_learns(scenes) -> None:
    trained = learner(scenes, SMALL)
    sum(trained.losses(trained.batches(0, np.random.default_rng(0))[0], np.random.default_rng(0)).values()).backward()
    without = {
        name for name, each in trained.module.named_parameters() if each.grad is None or not each.grad.abs().any()
    }
    assert without == {"parts.uniter:img_embeddings:mask_embedding:weight"}, "used in pretraining alone"


def test_a_run_ends_in_a_checkpoint_that_scores(scenes, tmp_path: Path) -> None:
    checkpoint = train_umic(
        start(scenes), scenes.train, scenes.dev, Negatives(), SMALL, tmp_path / "umic", data=scenes.data
    )
    saved = Checkpoint.read(tmp_path / "umic", "uniter")
    assert saved.sha256 == checkpoint.sha256 and saved.training["negatives"] == "paper"
    assert "epoch" in saved.selection and {"minus_loss", "pairwise_accuracy", "substitution"} <= set(saved.scores)
    history = [json.loads(line) for line in (tmp_path / "umic" / "log.jsonl").read_text().splitlines()]
    assert max(line["scores"]["minus_loss"] for line in history) == pytest.approx(saved.scores["minus_loss"], abs=1e-4)
    scores = evaluate_umic(checkpoint, scenes.test, Negatives(), "cpu")
    assert {"hard", "swapped picture", "umic-c random"} <= set(scores)
    assert all(0 <= each <= 100 for each in scores.values())
    captions = scenes.test.captions.select(range(5))
    pictures = {}
    for row, image in enumerate(captions.image_ids):
        features, positions = scenes.test.bank.get(int(scenes.test.picture[row]))
        pictures[image] = Regions(features, positions[:, :4])
    write_npz_regions(tmp_path / "regions", pictures.items(), half=False)
    captions.regions = str(tmp_path / "regions")
    name = str(parse(f'umic(checkpoint="{tmp_path / "umic"}")'))
    assert 0 < capmeter.score(captions, name)[name].score < 1


def test_a_run_is_a_function_of_its_seed(scenes, tmp_path: Path) -> None:
    shas = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        recipe = replace(SMALL, epochs=1, seed=seed)
        checkpoint = train_umic(
            start(scenes, seed), scenes.train, scenes.dev, Negatives(), recipe, tmp_path / name, data=scenes.data
        )
        shas.append(checkpoint.sha256)
    assert shas[0] == shas[1] != shas[2]


def test_fine_tuning_from_a_checkpoint_and_files(tmp_path: Path) -> None:
    """The matching head becomes the ranking head."""
    words = ("fast", "home", "away", "here")
    images = {str(k): (f"a dog runs {word}", f"two cats {word}") for k, word in enumerate(words, start=1)}
    random = np.random.default_rng(0)
    boxes = np.array([[0, 0, 1, 1], [0.2, 0.1, 0.5, 0.9]], np.float32)
    write_npz_regions(
        tmp_path / "regions", ((key, Regions(random.random((2, 6), np.float32), boxes)) for key in [*images, "extra"])
    )
    examples = file_examples(load_references(images | {"no regions": ("a",)}), str(tmp_path / "regions"), BoxRule())
    assert len(examples) == 8 and examples.bank.get(0)[0].shape == (2, 6)
    exclusions = {"coco": frozenset({"1", "3"}), "flickr30k": frozenset()}
    trainable = file_examples(load_references(images), str(tmp_path / "regions"), BoxRule(), exclusions)
    assert set(trainable.captions.image_ids) == {"2", "4"}, "benchmark photos are never trained on"
    with pytest.raises(InputError, match="no image with captions has regions"):
        file_examples({"x": ("a",)}, str(tmp_path / "regions"), BoxRule())
    vocabulary = StartingPoint.random(tuple(examples.captions.pool.sentences), 6, 0).vocabulary
    shape = UniterShape(len(vocabulary), 16, 1, 2, 32, 40, 6)
    weights = initial_weights(shape, 0)
    for part in ("weight", "bias"):
        del weights[f"rank_output.{part}"]
    weights["itm_output.bias"] += torch.tensor([0.25, 0.5])
    initial = StartingPoint.from_checkpoint(uniter_checkpoint(weights, shape, vocabulary, lowercase=True))
    assert torch.equal(initial.weights["rank_output.weight"], weights["itm_output.weight"][1:])
    assert initial.weights["rank_output.bias"].tolist() == [0.5]
    recipe = UmicRecipe(epochs=1, batches=2, batch=4, accumulate=2)
    checkpoint = train_umic(initial, examples, examples, Negatives(), recipe, tmp_path / "out", data=())
    change = np.abs(checkpoint.weights["uniter.pooler.dense.weight"] - weights["uniter.pooler.dense.weight"].numpy())
    assert 0 < change.max() < 1e-4, "a learning rate of 2e-6"


def test_weights_in_half_precision_are_trained_in_single_precision(scenes, tmp_path: Path) -> None:
    initial = start(scenes)
    checkpoint = uniter_checkpoint(initial.weights, initial.shape, initial.vocabulary, lowercase=True)
    half = replace(checkpoint, weights={name: array.astype(np.float16) for name, array in checkpoint.weights.items()})
    restored = StartingPoint.from_checkpoint(half)
    assert {each.dtype for each in restored.weights.values()} == {torch.float32}
    recipe = replace(SMALL, epochs=1, batches=1)
    trained = train_umic(restored, scenes.train, scenes.dev, Negatives(), recipe, tmp_path, data=scenes.data)
    assert {each.dtype for each in trained.weights.values()} == {np.dtype(np.float32)}


def test_training_heads_are_not_published(scenes) -> None:
    initial = start(scenes)
    module = UmicModule(initial.weights, initial.shape)
    assert UmicModule.published(module.state_dict()).keys() == initial.weights.keys()


# The bundled UMIC for synthetic scenes: its scores on held-out scenes, and its card.


MIN_ACCURACY = {
    "substitution": 95,
    "random": 99,
    "hard": 90,
    "repetition": 99,
    "permutation": 99,
    "swapped picture": 95,
}
CARD = Path(capmeter_research.__file__).parent / "papers/umic/weights/umic-world" / "README.md"


def held_out_accuracy(scenes: int, seed: int) -> dict[str, float]:
    """Pairwise accuracy on held-out scenes, by kind of negative."""
    examples, _ = scene_examples(World(split="test", size=scenes, seed=seed), load_world_encoder())
    return evaluate_umic(load_checkpoint("umic-world", "uniter"), examples, Negatives(), "cpu")


def test_true_captions_score_above_their_negatives() -> None:
    accuracy = held_out_accuracy(24, 5)
    assert not {kind: accuracy[kind] for kind, minimum in MIN_ACCURACY.items() if accuracy[kind] < minimum - 3}


def test_one_pass_gives_the_scores_of_each_head() -> None:
    examples, _ = scene_examples(World(split="test", size=3, seed=5), load_world_encoder())
    encoder = load_pair_encoder("umic-world", Settings())
    texts, heads = (
        [examples.captions.pool[k] for k in examples.captions.candidates.tolist()],
        ("rank_output", "itm_output"),
    )
    both = score_pairs(encoder, texts, examples.picture, examples, heads)
    assert both.shape == (2, len(texts)) and (both[0] != both[1]).all()
    alone = [score_pairs(encoder, texts, examples.picture, examples, [head]) for head in heads]
    assert both.tobytes() == np.concatenate(alone).tobytes()
    assert score_pairs(encoder, [], examples.picture[:0], examples, heads).shape == (2, 0)


@pytest.mark.slow
def test_the_card_states_the_accuracy() -> None:
    accuracy = held_out_accuracy(400, 0)
    assert not {kind: accuracy[kind] for kind, minimum in MIN_ACCURACY.items() if accuracy[kind] < minimum}
    rows = [line.strip("| ").split(" | ") for line in CARD.read_text("utf-8").splitlines() if line.startswith("|")]
    kinds = [name.replace("another picture", "swapped picture") for name in rows[0] if name]
    for head, row in (("", rows[2]), ("umic-c ", rows[3])):
        stated = dict(zip(kinds, map(float, row[1:]), strict=True))
        assert stated == pytest.approx({kind: accuracy[head + kind] for kind in kinds}, abs=0.15)


def test_the_card_names_the_weights() -> None:
    stated = re.search(r"SHA-256 of `weights\.safetensors`:\s+`([0-9a-f]{64})`", CARD.read_text("utf-8"))
    weights = (CARD.parent / "weights.safetensors").read_bytes()
    assert stated is not None and stated.group(1) == hashlib.sha256(weights).hexdigest()
