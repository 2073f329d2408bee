"""Pairs: what the context, the positive and the negatives are, where they come from, and how often."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from capmeter_research.papers.leic.training.examples import (
    CaptionedImage,
    ImageExamples,
    MachineText,
    as_examples,
    learn_vocabulary,
)
from capmeter_research.papers.leic.training.recipe import AUGMENTED, SOURCES, CriticRecipe, read_shares
from capmeter_research.papers.leic.training.sampling import PairSampler, Sample
from capmeter_research.papers.leic.vocabulary import END, CriticVocabulary
from support.leic_captions import captioned

from capmeter.core.errors import InputError

RECIPE = CriticRecipe(context="reference", least=1)


def known(images: list[CaptionedImage]) -> tuple[ImageExamples, CriticVocabulary]:
    vocabulary = learn_vocabulary(images, RECIPE)
    return as_examples(images, vocabulary), vocabulary


def texts(sample: Sample, vocabulary: CriticVocabulary) -> list[str]:
    rows = [sample.windows[k][: sample.lengths[k]].tolist() for k in range(len(sample.windows))]
    return [" ".join(vocabulary.decode([each for each in row if each != END])) for row in rows]


def test_contexts_and_positives_are_different_captions_of_the_image() -> None:
    images = captioned(40)
    examples, vocabulary = known(images)
    sampler = PairSampler(examples, vocabulary, AUGMENTED)
    for seed in range(5):
        sample = sampler.draw(np.arange(40), np.random.default_rng(seed))
        output = texts(sample, vocabulary)
        for k, image in enumerate(images):
            assert output[k] in image.human and output[40 + k] in image.human and output[k] != output[40 + k]


@pytest.mark.parametrize("source", SOURCES)
def test_negatives_come_from_their_source(source: str) -> None:
    images = captioned(30)
    examples, vocabulary = known(images)
    sample = PairSampler(examples, vocabulary, ((source, 1.0),)).draw(np.arange(30), np.random.default_rng(3))
    output = texts(sample, vocabulary)
    assert sorted(sample.row.tolist()) == list(range(30)) and (sample.weight == 1).all()
    changed = 0
    for row, location in zip(sample.row.tolist(), sample.negative.tolist(), strict=True):
        image, negative, positive = images[row], output[location], output[30 + row]
        if source == "machine":
            known_words = {word for each in image.human for word in each.split()} | {"on"}
            assert set(negative.replace("<unk>", "on").split()) <= known_words
        elif source == "monte-carlo":
            assert negative.split()[1:] == image.samples[0].caption.split()[1:]
        elif source == "other-caption":
            assert 30 <= location < 60 and location != 30 + row  # another image's positive
        elif source == "permutation":
            assert sorted(negative.split()) == sorted(positive.split()) and negative != positive
        else:
            differing = sum(a != b for a, b in zip(negative.split(), positive.split(), strict=True))
            assert 2 <= differing <= len(positive.split())
            changed += differing
    if source == "replacement":
        assert changed > 3 * 30  # 2 to all of six words: four on average


def test_a_machine_caption_never_meets_a_reference_that_the_machine_had_read() -> None:
    human = ("a dog runs", "the dog", "two dogs")
    images = [CaptionedImage(str(k), human, (MachineText("a dog dog", (0, 2)),)) for k in range(50)]
    examples, vocabulary = known(images)
    sample = PairSampler(examples, vocabulary, (("machine", 1.0),)).draw(np.arange(50), np.random.default_rng(0))
    output = texts(sample, vocabulary)
    assert set(output[:50]) == {"the dog"} and set(output[50:100]) == {"a dog runs", "two dogs"}


def test_shares_and_images_without_a_source() -> None:
    images = captioned(3000)
    images[:1500] = [CaptionedImage(each.id, each.human) for each in images[:1500]]  # no machine captions, no samples
    examples, vocabulary = known(images)
    sampler = PairSampler(examples, vocabulary, AUGMENTED)
    sample = sampler.draw(np.arange(3000), np.random.default_rng(0))
    bare, rich = (Counter(sampler.sources[k] for k in part.tolist()) for part in np.split(sample.source, 2))
    assert set(bare) == {"other-caption", "permutation", "replacement"} and set(rich) == set(SOURCES)
    for source in bare:
        assert bare[source] / 1500 == pytest.approx(1 / 3, abs=0.04)
        assert rich[source] / 1500 == pytest.approx(1 / 9, abs=0.03)
    for source in ("machine", "monte-carlo"):
        assert rich[source] / 1500 == pytest.approx(1 / 3, abs=0.04)


def test_captions_of_several_other_images_share_the_weight_of_one() -> None:
    examples, vocabulary = known(captioned(20))
    sample = PairSampler(examples, vocabulary, read_shares("other-caption"), others=4).draw(
        np.arange(20), np.random.default_rng(0)
    )
    assert len(sample.row) == 80 and (sample.weight == 0.25).all()
    for row in range(20):
        borrowed = sample.negative[sample.row == row]
        assert len(set(borrowed.tolist())) == 4 and 20 + row not in borrowed
        assert ((borrowed >= 20) & (borrowed < 40)).all()
    few = PairSampler(examples, vocabulary, read_shares("other-caption"), others=4).draw(
        np.arange(3), np.random.default_rng(0)
    )
    assert len(few.row) == 6 and (few.weight == 0.5).all()  # only two others


def test_the_same_seed_draws_the_same() -> None:
    examples, vocabulary = known(captioned(20))
    sampler = PairSampler(examples, vocabulary, AUGMENTED)
    first, second = (sampler.draw(np.arange(20), np.random.default_rng(9)) for _ in range(2))
    for name in ("windows", "lengths", "row", "negative", "weight", "source"):
        assert (getattr(first, name) == getattr(second, name)).all()


def test_captions_of_one_word_are_changed_too() -> None:
    images = [CaptionedImage("1", ("dog", "cat")), CaptionedImage("2", ("bird", "boat"))]
    examples, vocabulary = known(images)
    sample = PairSampler(examples, vocabulary, (("permutation", 1.0),)).draw(np.arange(2), np.random.default_rng(0))
    output = texts(sample, vocabulary)
    assert output[4] != output[2] and output[5] != output[3]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("machines=1", "unknown source 'machines'"),
        ("machine=0", "share of machine is 0.0"),
        ("machine=-1", "expected a positive number"),
        ("machine=nan", "expected a positive number"),
        ("machine=much", "'machine=much' is not SOURCE=SHARE"),
        ("machine,machine=2", "each once"),
        ("", "unknown source ''"),
    ],
)
def test_shares_that_cannot_be_get_a_sentence(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_shares(text)


def test_images_that_cannot_be_trained_on_are_named() -> None:
    images = captioned(3)
    vocabulary = learn_vocabulary(images, RECIPE)
    with pytest.raises(InputError, match=r"1 image has fewer than two human captions \(the first: x\)"):
        as_examples([*images, CaptionedImage("x", ("a dog",))], vocabulary)
    with pytest.raises(InputError, match="expected at least two images to train on, but got 1"):
        as_examples(images[:1], vocabulary)
    read_all = CaptionedImage("y", ("a dog", "a cat"), (MachineText("a dog", (0, 1)),))
    with pytest.raises(InputError, match="image y: a machine caption was written after reading all 2 human captions"):
        as_examples([*images, read_all], vocabulary)
    bare = [CaptionedImage(each.id, each.human) for each in images]
    with pytest.raises(InputError, match="no image has captions of the source 'machine'"):
        PairSampler(as_examples(bare, vocabulary), vocabulary, (("machine", 1.0),))


def test_the_positive_is_the_caption_that_the_negative_changed() -> None:
    images = [
        CaptionedImage(
            str(k),
            (f"a dog runs {k}", f"the cat sleeps {k}", f"one bird waits {k}"),
            (MachineText(f"a cat runs {k}", of=0), MachineText(f"one bird sleeps {k}", of=2)),
        )
        for k in range(20)
    ]
    examples, vocabulary = known(images)
    sampler, visits = PairSampler(examples, vocabulary, (("machine", 1.0),)), Counter[tuple[str, str, str]]()
    for seed in range(20):
        output = texts(sampler.draw(np.arange(20), np.random.default_rng(seed)), vocabulary)
        visits.update((output[k][0], output[20 + k][0], output[40 + k][0]) for k in range(20))  # first letters
    # the context is one of the two others, the positive that of which the negative is a copy
    assert set(visits) == {("t", "a", "a"), ("o", "a", "a"), ("a", "o", "o"), ("t", "o", "o")}
    assert all(60 < count < 140 for count in visits.values())


def test_captions_are_read_as_far_as_the_recipe_says() -> None:
    images = [CaptionedImage(str(k), ("a dog " * 10, "the cat sleeps")) for k in range(3)]
    vocabulary = learn_vocabulary(images, RECIPE)
    for steps, words in ((15, 15), (18, 18), (32, 20)):
        examples = as_examples(images, vocabulary, steps=steps)
        assert examples.windows.shape[1] == steps and examples.lengths[0] == min(words + 1, steps)  # and an end token
