"""A run: the critic learns, is written, resumes, and is read by the metric."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from capmeter_research.common.image_features import FeatureFile
from capmeter_research.papers.leic.critic import load_critic
from capmeter_research.papers.leic.training.capability import PERFORMANCE, capability, variants
from capmeter_research.papers.leic.training.network import SEEDED_RANGE
from capmeter_research.papers.leic.training.recipe import CriticRecipe, read_shares
from capmeter_research.papers.leic.training.submission import fold_of, judge
from capmeter_research.papers.leic.training.training import initial_vectors, train_critic
from capmeter_research.papers.leic.vocabulary import CriticVocabulary
from support.leic_captions import captioned

import capmeter
from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.checkpoints import TrainingData
from capmeter.core.errors import InputError

SMALL = CriticRecipe(
    context="reference", hidden=(24,), width=24, embedding=16, least=1, dropout=0.0, epochs=12, lr=0.01, gamma=1.0
)


def scored(folder: Path, pairs: list[tuple[str, str]]) -> list[float]:
    captions = CaptionSet.from_captions(Caption(f"{k}", f"{k}", a, (b,)) for k, (a, b) in enumerate(pairs))
    name = f"leic(checkpoint={folder})"
    return list(capmeter.score(captions, [name])[name].items.values())


def test_a_critic_learns_to_look_at_its_reference(tmp_path: Path) -> None:
    recipe = replace(SMALL, negatives=read_shares("other-caption,replacement"), epochs=60)
    images = captioned(400)
    result = train_critic(
        images, captioned(40, seed=1), recipe, tmp_path / "critic", data=[TrainingData("made", "0", 1)]
    )
    assert result.scores["other-caption"] > 0.7 and result.scores["human"] > 0.7
    right, wrong = scored(
        tmp_path / "critic",
        [
            ("a dog runs in the park", "the dog runs near a park"),
            ("a train stops in the street", "the dog runs near a park"),
        ],
    )
    assert right > 0.7 > 0.3 > wrong
    assert result.training["captions"] == {"human": 1200, "machine": 800, "monte-carlo": 400}
    assert load_critic(str(tmp_path / "critic")).initialisation == "seeded 0" and result.data[0].name == "made"


def test_the_first_epochs_may_leave_out_long_captions() -> None:
    from capmeter_research.papers.leic.training.examples import as_examples, learn_vocabulary
    from capmeter_research.papers.leic.training.training import CriticLearner

    images = captioned(12)
    long = [replace(each, human=tuple(f"{text} {text}" for text in each.human)) for each in images[:5]]
    recipe = replace(SMALL, negatives=read_shares("machine"), brief=2, images=4)
    inputs = [*long, *images[5:]]
    vocabulary = learn_vocabulary(inputs, recipe)
    learner = CriticLearner(as_examples(inputs, vocabulary), None, vocabulary, recipe)
    visits = [sorted(np.concatenate(learner.batches(epoch, np.random.default_rng(epoch)))) for epoch in range(3)]
    assert visits == [list(range(5, 12)), list(range(5, 12)), list(range(12))]
    with pytest.raises(InputError, match="expected fewer first epochs of short captions than the 12 epochs, got 12"):
        replace(SMALL, brief=12)


def test_image_features_are_used(tmp_path: Path) -> None:
    images = captioned(300)
    words = sorted({word for image in images for word in image.human[0].split()})
    table = np.array([[word in image.human[0].split() for word in words] for image in images], np.float32)
    np.savez(tmp_path / "f.npz", image_ids=[image.id for image in images], features=table)
    recipe = replace(SMALL, context="image", negatives=read_shares("other-caption"), epochs=25)
    features = FeatureFile(str(tmp_path / "f.npz"))
    result = train_critic(images[:260], images[260:], recipe, tmp_path / "critic", features=features)
    assert result.features == (f"f.npz@{result.features[0].split('@')[1]}",) and result.scores["other-caption"] > 0.7
    with pytest.raises(InputError, match="context=image needs image features"):
        train_critic(images, (), recipe, tmp_path / "blind")


def test_word_vectors_to_start_from(tmp_path: Path) -> None:
    class Vectors:
        width, label = 2, "made@0"

        def find(self, words: list[str]) -> tuple[np.ndarray, np.ndarray]:
            names = {"dog": (1.0, 2.0), "unk": (7.0, 8.0), "<eos>": (5.0, 5.0)}
            return np.array([word in names for word in words]), np.array(
                [names.get(word, (0.0, 0.0)) for word in words], np.float32
            )

    vocabulary = CriticVocabulary(["dog", "cat"])
    start = initial_vectors(Vectors(), vocabulary, replace(SMALL, embedding=2))
    assert start.tolist() == [[7, 8]] * 4 + [[1, 2], [7, 8]]  # special tokens and unknown words: that of `unk`
    narrow = initial_vectors(Vectors(), vocabulary, replace(SMALL, embedding=1))
    # all lie on the line from (1, 2) to (7, 8): the distance along it from the mean, five sixths and one sixth of it
    assert narrow[4, 0] == pytest.approx(-5 * narrow[5, 0], rel=1e-5)
    assert np.abs(narrow).mean() == pytest.approx(SEEDED_RANGE / 3**0.5, rel=1e-5)
    with pytest.raises(InputError, match="word vectors of width 2, but embedding=16; set embedding=2 or less"):
        initial_vectors(Vectors(), vocabulary, SMALL)


def submission(wrong: str) -> CaptionSet:
    return CaptionSet.from_captions(
        Caption(image.id, image.id, wrong if k % 3 else image.machine[0].caption, image.human)
        for k, image in enumerate(captioned(60))
    )


def test_judging_a_submission(tmp_path: Path) -> None:
    recipe = replace(SMALL, epochs=15, images=10, negatives=read_shares("machine=2,permutation=1"))
    good = CaptionSet.from_captions(
        Caption(image.id, image.id, image.human[k % 3], image.human[: k % 3] + image.human[k % 3 + 1 :])
        for k, image in enumerate(captioned(60))
    )
    bad = judge(submission("boat boat"), recipe, tmp_path, name="bad", runs=2)
    fair = judge(good, recipe, tmp_path, name="fair", runs=2)
    assert len(bad.scores) == 2 and bad.images == 60 and bad.items.mean() == pytest.approx(bad.scores.mean())
    assert fair.scores.mean() > bad.scores.mean() + 0.2
    assert bad.human.mean() > 0.6 and bad.scores.mean() < 0.1
    assert bad.performance == pytest.approx((1 - bad.scores + bad.human) / 2)
    assert bad.spread(bad.scores) == pytest.approx(abs(bad.scores[0] - bad.scores[1]) / 2**0.5)
    again = judge(good, recipe, tmp_path / "elsewhere", name="fair", runs=2)
    assert again.scores.tolist() == fair.scores.tolist()  # with no other submission beside it, or another one


def test_folds_do_not_depend_on_the_submission() -> None:
    folds = [fold_of(str(k)) for k in range(1000)]
    assert folds[:8] == [fold_of(str(k)) for k in range(8)] and 430 < sum(folds) < 570


def test_submissions_that_cannot_be_judged_get_a_sentence(tmp_path: Path) -> None:
    rows = [Caption("1", "i", "a dog", ("a", "b")), Caption("2", "i", "a cat", ("a", "b"))]
    with pytest.raises(InputError, match="several captions of one image"):
        judge(CaptionSet.from_captions(rows), SMALL, tmp_path, name="x")
    with pytest.raises(InputError, match=r"1 image has fewer than two references \(the first: i\)"):
        judge(CaptionSet.from_captions([Caption("1", "i", "a dog", ("a",))]), SMALL, tmp_path, name="x")
    with pytest.raises(InputError, match="1 image is too few for two folds"):
        judge(CaptionSet.from_captions(rows[:1]), SMALL, tmp_path, name="x")


def test_capability_with_and_without_augmentation(tmp_path: Path) -> None:
    images = captioned(160)
    recipe = replace(SMALL, epochs=10)
    result = capability(images[:120], images[120:], variants("augmentation", recipe), tmp_path)
    assert [each.name for each in result.rows] == ["with augmentation", "without augmentation"]
    assert result.columns == ("human", "first", "second", PERFORMANCE)
    for each in result.rows:
        machine = (each.found["first"] + each.found["second"]) / 2
        assert each.found[PERFORMANCE] == pytest.approx((each.found["human"] + 1 - machine) / 2)
        assert each.found["human"] > 0.6 > 0.4 > machine
    log = json.loads((tmp_path / "with-augmentation" / "metrics.json").read_text())
    assert log["recipe"]["epochs"] == 10


def test_the_studies_vary_one_thing() -> None:
    assert [each.layers for each in variants("layers", SMALL).values()] == [1, 2, 3]
    assert [each.width for each in variants("width", SMALL).values()] == [128, 256, 512, 1024]
    strategies = variants("strategy", SMALL, ("none", "reference"))
    assert [(each.context, each.fusion, each.hidden) for each in strategies.values()] == [
        ("none", "concatenation", ()),
        ("none", "concatenation", (512,)),
        ("reference", "concatenation", ()),
        ("reference", "bilinear", ()),
        ("reference", "concatenation", (512,)),
    ]
    with pytest.raises(InputError, match="unknown study 'depth'"):
        variants("depth", SMALL)
