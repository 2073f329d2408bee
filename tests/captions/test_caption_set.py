from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from capmeter.captions.caption_set import Caption, CaptionSet, SentencePool
from capmeter.captions.load import load_systems
from capmeter.core.errors import InputError

ROWS = [
    Caption("1", "a", "a dog runs", ("the dog runs", "a dog runs")),
    Caption("2", "a", "the dog runs", ("the dog runs", "a dog runs"), system="x"),
    Caption("3", "b", "", ("two cats",), human=(1.0, 2.0)),
]


@dataclass(frozen=True)
class Lengths:
    """Counts how often it was run, to see what is remembered."""

    runs: ClassVar[list[int]] = []

    def compute(self, pool: SentencePool) -> np.ndarray:
        self.runs.append(len(pool))
        return np.array([len(sentence) for sentence in pool.sentences])


@pytest.fixture(autouse=True)
def no_runs() -> None:
    Lengths.runs.clear()


def test_rows_come_back_and_each_sentence_is_stored_once() -> None:
    captions = CaptionSet.from_captions(ROWS)
    assert list(captions) == ROWS
    assert captions["2"] == ROWS[1]
    captions = CaptionSet.from_captions(ROWS)
    assert sorted(captions.pool.sentences) == ["", "a dog runs", "the dog runs", "two cats"]
    assert captions.references.lengths.tolist() == [2, 2, 1]


def test_doubled_and_unknown_ids_are_errors() -> None:
    with pytest.raises(InputError, match=r"duplicate id '1' \(captions 0 and 3"):
        CaptionSet.from_captions([*ROWS, ROWS[0]])
    with pytest.raises(InputError, match="no caption with the id 'z' among the 3"):
        CaptionSet.from_captions(ROWS)["z"]
    for wrong in (7, [7], [Caption("1", "1", "a", "ab")]):  # type: ignore[arg-type]
        with pytest.raises(InputError, match="expected Caption"):
            CaptionSet.from_captions(wrong)  # type: ignore[arg-type]


def test_a_selection_keeps_its_rows_and_only_their_sentences() -> None:
    part = CaptionSet.from_captions(ROWS).select([2, 0])
    assert list(part) == [ROWS[2], ROWS[0]]
    assert sorted(part.pool.sentences) == ["", "a dog runs", "the dog runs", "two cats"]
    assert len(CaptionSet.from_captions(ROWS).select([2]).pool) == 2


def test_chunks_are_the_whole() -> None:
    captions = CaptionSet.from_captions(ROWS)
    assert [row for part in captions.chunks(2) for row in part] == ROWS
    assert next(iter(captions.chunks(3))) is captions


def test_an_analysis_is_computed_once_for_each_pool() -> None:
    captions = CaptionSet.from_captions(ROWS)
    table = captions.pool.analyse(Lengths())
    assert captions.pool.analyse(Lengths()) is table
    part = captions.select([2])
    assert part.pool.analyse(Lengths()).tolist() == [len(s) for s in part.pool.sentences]
    assert Lengths.runs == [4, 2]


def lists(captions: CaptionSet) -> list[tuple[str, ...]]:
    """Each caption's references, by way of the distinct lists."""
    sets, pool = captions.reference_sets, captions.pool
    return [tuple(pool[int(i)] for i in sets[number]) for number in captions.reference_set_indices.tolist()]


def test_captions_that_share_their_references_are_known() -> None:
    captions = CaptionSet.from_captions([*ROWS, Caption("4", "c", "a cat", ("two cats",)), Caption("5", "d", "a cat")])
    assert captions.reference_set_indices.tolist() == [0, 0, 1, 1, 2]
    assert captions.reference_sets.lengths.tolist() == [2, 1, 0]
    expected = [caption.references for caption in captions]
    assert lists(captions) == expected
    part = captions.select([3, 1, 2, 0])
    assert part.reference_set_indices.tolist() == [0, 1, 0, 1]
    assert lists(part) == [expected[i] for i in (3, 1, 2, 0)]
    assert [lists(each) for each in captions.chunks(2)] == [expected[:2], expected[2:4], expected[4:]]
    assert lists(pickle.loads(pickle.dumps(part))) == lists(part)


def test_systems_of_one_file_keep_what_is_shared() -> None:
    rows = [{"image_id": k // 2, "captions": {"s": "a", "t": "b"}, "references": [f"r{k // 2}"]} for k in range(4)]
    for captions in load_systems(rows).values():
        assert captions.reference_set_indices.tolist() == [0, 0, 1, 1]
        assert lists(captions) == [caption.references for caption in captions]
