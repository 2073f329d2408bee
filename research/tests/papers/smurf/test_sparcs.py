"""SPARCS: by hand, against the scores its authors published, and what must hold for any caption."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from capmeter_research.papers.smurf.sparcs import Sparcs
from hypothesis import given
from hypothesis import strategies as st
from support.caption_sets import caption_set
from support.shared_files import read_document, read_rows

from capmeter.evaluation.base import RunContext
from capmeter.evaluation.registry import parse

WORDS = st.sampled_from(["dog", "dogs", "a", "runs", "running", "grass", "red-hot", "the", "ball", "!"])
SENTENCE = st.lists(WORDS, max_size=7).map(" ".join)
ROW = st.tuples(SENTENCE, st.lists(SENTENCE, min_size=1, max_size=4))


def values(*rows: tuple[str, list[str]]) -> np.ndarray:
    return Sparcs().measure(caption_set(rows), RunContext()).values


def test_by_hand() -> None:
    # concepts: {dog, run, beach}; references {dog, run}, {dog, play, ball}, {dog}: typicality 1, 1/3, 1/3, 1/3
    row = values(("A dog runs on the beach.", ["Dogs are running.", "The dog plays with a ball", "A dog"]))[0]
    precision, recall = (1 + 1 / 3) / (1 + 1 / 3 + 1), (1 + 1 / 3) / 2
    assert row == pytest.approx([2 * precision * recall / (precision + recall), precision, recall], abs=1e-15)


def test_a_reference_without_concepts_still_counts_among_the_references() -> None:
    assert values(("dog cat", ["dog", "the of"]))[0][1] == pytest.approx(0.5 / 1.5)


def test_nothing_in_common_and_nothing_said_score_zero() -> None:
    got = Sparcs().measure(caption_set([("a cat", ["a dog"]), ("", ["a dog"]), ("the of", ["a dog"])]), RunContext())
    assert got.values.tolist() == [[0.0] * 3] * 3
    assert got.notes == {"no words in candidate": ["i2"]}


def test_equals_the_scores_that_the_authors_published(shared: Path) -> None:
    rows = read_rows(shared / "data" / "coco_smurf_official_scores.jsonl.gz")
    got = values(*((row["candidate"], row["references"]) for row in rows))[:, 0]
    official = np.array([row["official"]["SPARCS"] for row in rows])
    assert len(rows) == 4000
    np.testing.assert_allclose(got, official, rtol=0, atol=1e-12)


def test_equals_the_released_code_on_flickr8k(shared: Path) -> None:
    rows = read_rows(shared / "data" / "flickr8k_expert.jsonl.gz")
    official = read_document(shared / "oracles" / "smurf_sparcs_flickr5664.json.gz")["scores"]
    scored = [row for row in rows if not row["candidate_in_references"]]
    got = values(*((row["candidate"], row["references"]) for row in scored))[:, 0]
    np.testing.assert_allclose(got, official, rtol=0, atol=1e-12)


@given(st.lists(ROW, min_size=1, max_size=6))
def test_scores_lie_in_range_and_do_not_depend_on_the_other_captions(rows: list[tuple[str, list[str]]]) -> None:
    expected = values(*rows)
    assert ((expected >= 0) & (expected <= 1)).all()
    for k, row in enumerate(rows):
        np.testing.assert_allclose(expected[k], values(row)[0], rtol=0, atol=1e-15)
    reversed_references = values(*((candidate, references[::-1]) for candidate, references in rows))
    np.testing.assert_allclose(reversed_references, expected, rtol=0, atol=1e-15)


@given(SENTENCE)
def test_the_only_reference_itself_scores_one(sentence: str) -> None:
    score = values((sentence, [sentence]))[0][0]
    assert score == (1.0 if set(sentence.split()) - {"a", "the", "!", "red-hot"} else 0.0)


@given(st.lists(ROW, min_size=2, max_size=6))
def test_parts_score_as_the_set(rows: list[tuple[str, list[str]]]) -> None:
    both = caption_set(rows)
    parts = [Sparcs().measure(part, RunContext()).values for part in both.chunks(2)]
    np.testing.assert_array_equal(np.concatenate(parts), Sparcs().measure(both, RunContext()).values)


def test_explanation_shows_every_concept_with_its_typicality() -> None:
    evidence = Sparcs().explain(
        caption_set([("A dog and a dog chase a cat.", ["Dogs are running.", "the dog sees a ball"])]), None
    )[0]
    assert evidence.candidate == ("a", "dog", "and", "a", "dog", "chase", "a", "cat")
    marks = {
        evidence.candidate[mark.start]: (mark.kind, mark.weight) for mark in evidence.marks if mark.side == "candidate"
    }
    assert marks == {"dog": ("concept", 1.0), "chase": ("unmatched", 1.0), "cat": ("unmatched", 1.0)}
    named = {
        evidence.references[mark.reference_index][mark.start]: (mark.kind, mark.weight)
        for mark in evidence.marks
        if mark.reference_index is not None
    }
    assert named == {
        "dogs": ("concept", 1.0),
        "running": ("unmatched", 0.5),
        "dog": ("concept", 1.0),
        "sees": ("unmatched", 0.5),
        "ball": ("unmatched", 0.5),
    }
    assert [(link.candidate, link.reference_index, link.reference, link.weight) for link in evidence.links] == [
        ((1, 2), 0, (0, 1), 1.0),
        ((1, 2), 1, (1, 2), 1.0),
    ]
    assert evidence.facts["precision"] == pytest.approx(1 / 3)


def test_name() -> None:
    assert str(parse("sparcs")) == "sparcs"
