"""Candidates that do not belong to their references are recognised by their words and lengths."""

from __future__ import annotations

import gzip
import itertools
import json
import math
import random
import statistics
from pathlib import Path

import pytest

from capmeter.captions.load import load
from capmeter.captions.text_checks import ReferenceFit
from capmeter.captions.validation import examine
from capmeter.captions.words import find_untokenised

SUBJECTS = ["dog", "cat", "girl", "boy", "bus", "train", "horse", "bird", "man", "woman", "chef"]
PLACES = ["beach", "street", "kitchen", "park", "river", "forest", "stage", "roof", "field", "boat", "bridge"]
CANDIDATES = [f"a {SUBJECTS[k % 11]} in the {PLACES[k * 3 % 11 - k // 11]}" for k in range(24)]
REFERENCES = [[f"the {text.split()[1]} stays", f"somewhere in the {text.split()[-1]}"] for text in CANDIDATES]


def measure(candidates: list[str], references: list[list[str]]) -> ReferenceFit:
    return ReferenceFit.measure(load(candidates, references))


def test_shares_and_lengths_by_hand() -> None:
    fit = measure(["a dog runs", "two cats"], [["a dog"], ["a cat sleeps", "two cats sleep"]])
    assert (fit.candidate_words, fit.reference_words) == (2.5, pytest.approx(8 / 3))
    assert fit.vocabulary_share == 4 / 5  # a, dog, two, cats; not: runs
    assert fit.own_share == pytest.approx((2 / 3 + 1) / 2)
    assert fit.other_share == pytest.approx((1 / 3 + 0) / 2)
    assert fit.excess == pytest.approx(2)  # differences 1/3 and 1: mean 2/3, standard error 1/3
    assert fit.describe_mismatch() is None  # two images say nothing


def test_references_of_other_images_are_a_mismatch() -> None:
    assert measure(CANDIDATES, REFERENCES).describe_mismatch() is None
    message = measure(CANDIDATES, REFERENCES[5:] + REFERENCES[:5]).describe_mismatch()
    assert message is not None and "belong to other images, or are in another order" in message


def test_references_joined_into_one_text_are_a_mismatch() -> None:
    joined = [[" ".join(texts * 4)] for texts in REFERENCES]
    message = measure(CANDIDATES, joined).describe_mismatch()
    assert message is not None and "joined into one text" in message
    assert [text for text in examine(CANDIDATES, joined).warnings if "joined into one text" in text]


def test_captions_without_any_word_of_the_references_are_a_mismatch() -> None:
    message = measure(CANDIDATES, [["zwei Katzen", "vierzig Hunde"]] * 24).describe_mismatch()
    assert message is not None and "(0%) than with those of other images (0%)" in message


def test_one_caption_for_all_images_says_nothing_about_the_references() -> None:
    assert measure(["a photo of a dog"] * 24, REFERENCES).describe_mismatch() is None


@pytest.mark.parametrize("seed", range(6))
def test_equals_a_slow_recomputation(seed: int) -> None:
    """Captions that repeat, references in common, empty ones of both."""
    sampled = random.Random(seed)

    def text() -> str:
        return " ".join(sampled.choice(["a", "b", "c", "d", "e", "f"]) for _ in range(sampled.randrange(5)))

    texts = [text() for _ in range(8)]
    candidates = [sampled.choice(texts) for _ in range(40)]
    references = [[sampled.choice(texts) for _ in range(sampled.choice((1, 1, 2, 3)))] for _ in range(40)]
    fit = measure(candidates, references)
    words = [set(each.split()) for each in candidates]
    names = [set(" ".join(each).split()) for each in references]
    with_words = [k for k in range(40) if words[k]]
    local = [len(words[k] & names[k]) / len(words[k]) for k in with_words]
    pairs = [(k, with_words[(at + len(with_words) // 2) % len(with_words)]) for at, k in enumerate(with_words)]
    other = [len(words[k] & names[away]) / len(words[k]) for k, away in pairs if k != away]
    differences = [a - b for a, b in zip(local, other, strict=True)]
    excess = statistics.fmean(differences) / statistics.stdev(differences) * math.sqrt(len(differences))
    expected = ReferenceFit(
        candidate_words=statistics.fmean(len(each.split()) for each in candidates),
        reference_words=statistics.fmean(len(each.split()) for texts in references for each in texts),
        vocabulary_share=len(set().union(*words) & set().union(*names)) / len(set().union(*words)),
        own_share=statistics.fmean(local),
        other_share=statistics.fmean(other),
        other_count=len(other),
        excess=excess,
        distinct_count=len(set(candidates)),
        has_single_references=False,
    )
    for name, value in vars(expected).items():
        assert getattr(fit, name) == pytest.approx(value, abs=1e-12), name


def test_untokenised_texts() -> None:
    assert find_untokenised(["a dog .", "a dog", "in the u.s.", "u. s. .", "", "3.", "A dog!", "a dog. "]) == [
        "A dog!",
        "a dog. ",
    ]


@pytest.mark.parametrize("system", ["m2_transformer", "llava15_7b_default", "smurf_human"])
def test_real_captions_fit_and_those_of_other_images_do_not(shared: Path, system: str) -> None:
    with gzip.open(shared / "data" / "coco_karpathy_test_captions.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in itertools.islice(file, 300)]
    candidates = [row["captions"][system] for row in rows]
    references = [row["references"] for row in rows]
    for count in (20, 50, 300):
        assert measure(candidates[:count], references[:count]).describe_mismatch() is None
        shifted = references[7:count] + references[:7]
        assert measure(candidates[:count], shifted).describe_mismatch() is not None
