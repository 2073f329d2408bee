"""Negatives of every kind: what they change, seeded draws, shares as in the paper and as released."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from capmeter_research.common.keywords import (
    TaggedVocabulary,
    choose_keywords,
    is_keyword,
    repeat_or_remove_keywords,
    substitute_keywords,
    tag_words,
)
from capmeter_research.papers.umic.training.negatives import KINDS, Negatives, parse_negatives
from hypothesis import given
from hypothesis import strategies as st
from support.command_line import capmeter

from capmeter.captions.load import load
from capmeter.core.errors import InputError
from capmeter.transforms.degradations import parse
from capmeter.transforms.similarity import Neighbours

TEXTS = {
    "1": ("A brown dog runs on the grass.", "a dog is running on green grass"),
    "2": ("A white dog sleeps on the grass.", "a small dog sleeps on grass"),
    "3": ("Two red cars stand in the street.", "red cars in a busy street"),
    "4": ("A woman eats a large pizza.", "a woman is eating pizza"),
    "5": ("A boy throws a yellow ball.", "a boy plays with a ball"),
}
RELEASED_KINDS = KINDS


@pytest.fixture(scope="module")
def captions():
    rows = [{"image_id": image, "candidate": texts[0], "references": list(texts)} for image, texts in TEXTS.items()]
    return load(rows)


def test_tags_belong_to_words() -> None:
    tags = tag_words(["A brown dog runs on the grass.", "the dog's ball, a dog", ""])
    assert tags[0] == ("DT", "JJ", "NN", "VBZ", "IN", "DT", "NN")
    assert len(tags[1]) == 5 and tags[1][1] == "NN" and tags[2] == ()


def test_a_vocabulary_has_words_by_part_of_speech() -> None:
    words = TaggedVocabulary.collect([text for texts in TEXTS.values() for text in texts])
    assert set(words.words) and all(map(is_keyword, words.words))
    assert words.counts["NN"][words.words["NN"].index("dog")] == 4
    assert words.totals["NN"][-1] == sum(words.counts["NN"])


def test_at_least_one_keyword_is_changed_and_more_at_larger_shares() -> None:
    tags = ("DT", "JJ", "NN", "VBZ", "IN", "DT", "NN")
    for seed in range(50):
        chosen = [set(choose_keywords(tags, share, np.random.default_rng(seed))) for share in (0.01, 0.3, 0.7, 1.0)]
        assert all(one <= other for one, other in pairwise(chosen))
        assert chosen[0] and chosen[-1] == {1, 2, 3, 6}
    assert choose_keywords(("DT", "IN"), 1.0, np.random.default_rng(0)) == []
    assert choose_keywords(tags, 0.0, np.random.default_rng(0)) == []


def test_substitution_keeps_the_part_of_speech_and_draws_by_frequency() -> None:
    words = TaggedVocabulary({"NN": ("cat", "dog", "horse")}, {"NN": (9, 90, 1)})
    sample = Counter(
        substitute_keywords(("a", "horse"), ("DT", "NN"), 1.0, np.random.default_rng(seed), words)[1]
        for seed in range(500)
    )
    assert set(sample) == {"cat", "dog"}, "never the word itself"
    assert 0.85 < sample["dog"] / 500 < 0.96, "90 to 9"


def test_repetition_and_removal_are_equally_frequent() -> None:
    lengths = Counter(
        len(repeat_or_remove_keywords(("a", "dog", "in"), ("DT", "NN", "IN"), 1.0, np.random.default_rng(seed)))
        for seed in range(400)
    )
    assert set(lengths) == {2, 4} and 150 < lengths[2] < 250
    assert repeat_or_remove_keywords(("dog",), ("NN",), 1.0, np.random.default_rng(0))[0] == "dog", "one word remains"


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_changes_the_caption_and_follows_the_seed(captions, kind: str) -> None:
    sampler = Negatives().sampler(captions)
    for row, each in enumerate(captions):
        sample = [sampler.sample_kind(kind, row, np.random.default_rng(seed)) for seed in range(8)]
        assert sample == [sampler.sample_kind(kind, row, np.random.default_rng(seed)) for seed in range(8)]
        assert all(text != each.candidate for text in sample) and len(set(sample)) > 1
        if kind not in ("random", "hard"):
            assert all(text.endswith(".") for text in sample), "the final punctuation stays"
        if kind == "permutation":
            assert {tuple(sorted(text.strip(".").split())) for text in sample} == {
                tuple(sorted(each.candidate.strip(".").split()))
            }


def test_hard_captions_are_of_the_most_similar_images(captions) -> None:
    sampler = parse_negatives("paper(nearest=1)").sampler(captions)
    assert {sampler.sample_kind("hard", 0, np.random.default_rng(seed)) for seed in range(20)} == {TEXTS["2"][0]}
    random = {sampler.sample_kind("random", 0, np.random.default_rng(seed)) for seed in range(60)}
    assert random == {texts[0] for image, texts in TEXTS.items() if image != "1"}


def test_the_paper_draws_a_similar_image_half_of_the_time(captions) -> None:
    sampler = parse_negatives("paper(nearest=1)").sampler(captions)
    sample = [sampler.sample(0, np.random.default_rng(seed)) for seed in range(400)]
    assert set(map(tuple, sample)) == {("substitution", "random", "repetition-removal", "permutation")}
    close = sum(each["random"] == TEXTS["2"][0] for each in sample) / 400
    assert 0.55 < close < 0.70, "one half, and a fourth of the other half"


def test_the_released_code_draws_five(captions) -> None:
    sampler = parse_negatives("released").sampler(captions)
    sample = [sampler.sample(0, np.random.default_rng(seed)) for seed in range(400)]
    assert set(map(tuple, sample)) == {RELEASED_KINDS}
    shorter = sum(len(each["permutation"].split()) < 7 for each in sample) / 400
    assert 0.4 < shorter < 0.6, "one half of the time words are left out instead"


def test_the_share_of_changed_keywords(captions) -> None:
    sampler = Negatives().sampler(captions)
    changed = []
    for seed in range(300):
        text = sampler.sample_kind("substitution", 0, np.random.default_rng(seed)).rstrip(".").split()
        changed.append(sum(a != b for a, b in zip(text, TEXTS["1"][0].rstrip(".").split(), strict=True)) / 4)
    assert 0.3 < np.mean(changed) < 0.42, "30 % of four keywords, but at least one"


def test_kinds_can_be_left_out(captions) -> None:
    chosen = parse_negatives("paper(without=permutation+random)")
    assert chosen.kinds == ("substitution", "repetition-removal")
    assert str(chosen) == "paper(without=permutation+random)" and parse_negatives(str(chosen)) == chosen
    with pytest.raises(InputError, match="must leave some"):
        parse_negatives("released(without=" + "+".join(KINDS) + ")")
    with pytest.raises(InputError, match="must leave some of"):
        parse_negatives("paper(without=colour)")
    with pytest.raises(InputError, match="unknown negatives"):
        parse_negatives("umic")
    with pytest.raises(InputError, match="expected a share"):
        Negatives(share=0.0)


@given(st.text(max_size=30), st.integers(0, 1000))
def test_any_text_has_negatives(text: str, seed: int) -> None:
    result = load([{"image_id": "1", "candidate": text}, {"image_id": "2", "candidate": "a dog"}], on_missing="keep")
    sampler = Negatives().sampler(result)
    assert all(isinstance(each, str) for each in sampler.sample(0, np.random.default_rng(seed)).values())


@pytest.mark.parametrize("name", ["pos-substitution", "repetition-removal", "other-caption(nearest=3)"])
def test_the_same_values_degrade_captions_for_robustness(captions, name: str) -> None:
    degrade = parse(name).fit(captions, seed=1)
    assert degrade(0, 0.0) == TEXTS["1"][0] and degrade(0, 0.3) != TEXTS["1"][0]
    assert degrade(0, 0.3) == parse(name).fit(captions, seed=1)(0, 0.3)
    assert str(parse(name)) == name


def test_the_most_similar_images_are_the_first_of_all(captions) -> None:
    neighbours = Neighbours.find(captions)
    for row in range(len(captions)):
        np.testing.assert_array_equal(neighbours.nearest(row, 2), neighbours.nearest(row)[:2])


def test_the_command_reads_annotations(tmp_path: Path) -> None:
    """The documented command: every caption of COCO's annotations is one to sample negatives for."""
    entries = [{"image_id": int(image), "caption": text} for image, texts in TEXTS.items() for text in texts]
    annotations = {"images": [{"id": int(image)} for image in TEXTS], "annotations": entries}
    (tmp_path / "val.json").write_text(json.dumps(annotations))
    done = capmeter("negatives", tmp_path / "val.json", "--show", "1", "-o", tmp_path / "all.jsonl")
    assert done.returncode == 0, done.stderr
    written = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    assert [row["candidate"] for row in written if row["system"] == "caption"] == [each["caption"] for each in entries]
