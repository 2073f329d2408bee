"""What a protocol does to rows: what is left out, which references remain, how ratings become points."""

from __future__ import annotations

import numpy as np
import pytest

from capmeter.core.errors import ProtocolError
from capmeter.judgments.prepared import (
    JudgedSystem,
    RatedCaption,
    RatedPair,
    prepare_pairs,
    prepare_points,
    prepare_systems,
)
from capmeter.judgments.protocol import Protocol
from capmeter.text.tokenization.token_tables import keep_letters_and_digits

REFERENCES = ("A man's dog runs.", "The dog is running", "A brown dog")
ROWS = [
    RatedCaption("i#0", "i", "a mans dog runs", REFERENCES, (4, 3, 4), own=True, by_person=True),
    RatedCaption("i#1", "i", "The dog is running", REFERENCES, (2, 2, 5), own=True),
    RatedCaption("i#2", "i", "a cat", REFERENCES, (1, 1, 2), groups={"subset": "x"}),
    RatedCaption("j", "j", "two birds", ("a pair of birds",), (3, 1, 1)),
]


def made(**fields: object):
    return prepare_points("mine", ROWS, Protocol(name="p", **fields))  # type: ignore[arg-type]


def test_ratings_become_points() -> None:
    flat = made(ratings="flatten")
    assert flat.human.tolist() == [4, 3, 4, 2, 2, 5, 1, 1, 2, 3, 1, 1]
    assert flat.rows.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert flat.clusters == ("i",) * 9 + ("j",) * 3
    assert made(ratings="mean").human.tolist() == pytest.approx([11 / 3, 3, 4 / 3, 5 / 3])
    assert made(ratings="median").human.tolist() == [4, 2, 1, 1]


def test_what_is_left_out_is_counted() -> None:
    left = made(leave_out=("own-captions",))
    assert left.ids == ("i#2", "j") and left.notes == {"own-captions": 2}
    assert made(leave_out=("human-captions", "own-captions")).notes == {"human-captions": 1, "own-captions": 1}
    with pytest.raises(ProtocolError, match="identical does not apply to mine"):
        made(leave_out=("identical",))


def test_reference_rules() -> None:
    def references(rule: str, id: str = "i#2") -> tuple[str, ...]:
        return made(references=rule).captions[id].references

    assert references("all") == REFERENCES
    assert references("without-candidates") == ("A brown dog",)  # of the image, for all its rows
    assert references("without-human-candidate") == ("The dog is running", "A brown dog")
    assert references("first-2") == REFERENCES[:2]
    drawn = references("draw-2")
    assert len(drawn) == 2 and set(drawn) <= set(REFERENCES)
    assert made(references="draw-2").captions["i#0"].references == drawn  # one draw for an image
    assert references("draw-2", "j") == ("a pair of birds",)


def test_draws_are_nested_and_seeded() -> None:
    many = [RatedCaption(str(k), str(k), "x", tuple(f"{k} {n}" for n in range(9)), (k % 3,)) for k in range(20)]

    def drawn(k: int, seed: int) -> list[tuple[str, ...]]:
        set_of = prepare_points("mine", many, Protocol(name="p", references=f"draw-{k}", seed=seed)).captions
        return [caption.references for caption in set_of]

    assert drawn(3, 1) == drawn(3, 1) != drawn(3, 2)
    for few, more in zip(drawn(3, 1), drawn(4, 1), strict=True):
        assert set(few) < set(more)


def test_one_reference_at_a_time() -> None:
    single = made(references="mean-of-single")
    assert len(single.captions) == 10 and single.captions["i#2/1"].references == ("The dog is running",)
    scores = np.asarray([1, 2, 3, 4, 5, 6, 7, 8, 12, 0.5])
    assert single.per_caption(scores).tolist() == [2, 5, 9, 0.5]
    assert made(references="max-of-single").per_caption(scores).tolist() == [3, 6, 12, 0.5]
    mixed = made(references="mean-of-single", maximum_for=("bertscore",))
    assert mixed.per_caption(scores, "bertscore(encoder=minilm)").tolist() == [3, 6, 12, 0.5]
    assert mixed.per_caption(scores, "cider-d").tolist() == [2, 5, 9, 0.5]


def test_raw_judgments_are_kept_beside_what_the_protocol_makes_of_them() -> None:
    rows = [RatedCaption(str(k), str(k), "x", ("y",), (1, k)) for k in range(3)]
    assert prepare_points("mine", rows, Protocol(name="p", ratings="mean")).ratings == ((1, 0), (1, 1), (1, 2))
    voted = [RatedPair(str(k), "i", ("a", "b"), (), 1, votes=(1, 1, -1)[k:]) for k in range(2)]
    tied = RatedPair("tied", "i", ("a", "b"), (), 0, votes=(1, -1))
    judgments = prepare_pairs("mine", [*voted, tied], Protocol(name="p", statistic="accuracy"))
    assert judgments.votes == ((1, 1, -1), (1, -1)) and not judgments.by_votes
    assert prepare_pairs("mine", [voted[0], RatedPair("none", "i", ("a", "b"), (), 1)], Protocol(name="p")).votes == ()


def test_printings_of_one_sentence() -> None:
    assert (
        keep_letters_and_digits("A man's dog, running .")
        == keep_letters_and_digits("a mans dog running")
        != keep_letters_and_digits("a man running")
    )
    assert keep_letters_and_digits("Über-Größe") == "übergröße"


def test_pairs() -> None:
    rows = [
        RatedPair("0", "i", ("a dog", "a cat"), ("a dog runs",), 1, groups={"category": "HC"}),
        RatedPair("1", "i", ("a dog", "A dog"), ("a dog runs",), -1, identical=True),
        RatedPair("2", "j", ("a bird", "two birds"), (), -1, valid=False),
        RatedPair("3", "j", ("a bird", "birds"), ("birds",), 0),
    ]
    every = prepare_pairs("mine", rows, Protocol(name="p", statistic="accuracy"))
    assert every.notes == {"tied judgments": 1} and every.better.tolist() == [1, -1, -1]
    assert [every.ids[k] for k in every.first] == ["0/a", "1/a", "2/a"] and every.ids[every.second[1]] == "1/b"
    left = Protocol(name="p", statistic="accuracy", leave_out=("identical", "unreferenced", "invalid"))
    few = prepare_pairs("mine", rows, left)
    assert few.notes == {"identical": 1, "unreferenced": 1, "invalid": 0, "tied judgments": 1}
    assert few.captions["0/b"].candidate == "a cat"
    with pytest.raises(ProtocolError, match="by=subset is not a field of mine's rows"):
        prepare_pairs("mine", rows, Protocol(name="p", by="subset"))


def test_nothing_left_says_why() -> None:
    tied = [RatedPair("0", "i", ("a dog", "a cat"), ("a dog runs",), 0)]
    with pytest.raises(ProtocolError, match=r"no judgments left: all rows are excluded \(1 tied judgments\)"):
        prepare_pairs("mine", tied, Protocol(name="p", statistic="accuracy"))
    unrated = [RatedCaption("0", "i", "a dog", ("a dog runs",), ())]
    with pytest.raises(ProtocolError, match=r"no judgments left: all rows are excluded \(1 without ratings\)"):
        prepare_points("mine", unrated, Protocol(name="p"))
    with pytest.raises(ProtocolError, match="no judgments left: the file is empty"):
        prepare_points("mine", [], Protocol(name="p"))


def test_systems() -> None:
    rows = [JudgedSystem("a", 0.5, {"m2": 3.0}), JudgedSystem("b", 0.2), JudgedSystem("input", 0.1, baseline=True)]
    result = prepare_systems("mine", rows, Protocol(name="p", leave_out=("baselines",)))
    assert result.names == ("a", "b") and len(result.captions) == 0
    assert result.published_scores["m2"][0] == 3.0 and np.isnan(result.published_scores["m2"][1])
