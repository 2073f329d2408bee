"""Unigram TBR by hand and against the released script's values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from capmeter_research.papers.tbr.tbr_unigram import TbrUnigram
from support.caption_sets import caption_set
from support.shared_files import read_document, read_rows

import capmeter
from capmeter.core.errors import InputError
from capmeter.evaluation.base import RunContext
from capmeter.stats.kendall import TauB


def scores(rows: list[tuple[str, list[str]]], **parameters: object) -> list[float]:
    return TbrUnigram(**parameters).measure(caption_set(rows), RunContext()).values[:, 0].tolist()  # type: ignore[arg-type]


def test_by_hand() -> None:
    references = ["A dog runs along the beach .", "the brown dog plays"]
    # content words: dog, runs, beach, brown, plays (a, along, the and the full stop are stop words)
    assert scores([("a Dog plays by the sea", references)]) == [2 / 5]
    assert scores([("dog runs beach brown plays", references)]) == [1.0]
    assert scores([("", references), ("sea", references), ("dog", ["the a of"])]) == [0.0, 0.0, 0.0]


def test_as_released_keeps_case_and_commas() -> None:
    references = ["A Dog , and a dog ."]  # content: Dog , dog
    assert scores([("the dog", references), ("Dog ,", references)], as_released=True) == [1 / 3, 2 / 3]
    assert scores([("the dog", references)]) == [1.0]


def test_all_rows_equal_the_released_script(shared: Path) -> None:
    published = read_document(shared / "oracles" / "tbr_unigram_flickr.json.gz")
    rows = read_rows(shared / "data" / "flickr8k_expert.jsonl.gz")
    scored = np.array(scores([(row["candidate"], row["references"]) for row in rows], as_released=True))
    fresh = np.array([not row["candidate_in_references"] for row in rows])
    np.testing.assert_allclose(scored, published["scores_5822"], rtol=0, atol=1e-15)
    np.testing.assert_allclose(scored[fresh], published["scores"], rtol=0, atol=1e-15)
    human = np.array([np.mean(row["human"]) for row in rows])
    assert float(TauB(scored[fresh], human[fresh])()) == pytest.approx(0.4708, abs=5e-5)


def test_through_the_front_door_and_explained() -> None:
    results = capmeter.score(
        candidates=["a brown dog", ""], references=[["the dog runs", "a dog"], ["a cat"]], metrics="tbr-unigram"
    )["tbr-unigram"]
    assert results.items.array.tolist() == [0.5, 0.0]
    assert results.notes == {"empty candidate": ["1"]}
    assert "ptb" in results.signature
    (evidence,) = TbrUnigram().explain(caption_set([("a brown dog", ["the dog runs", "a dog"])]), RunContext())
    assert [(link.candidate, link.reference_index, link.reference) for link in evidence.links] == [((2, 3), 0, (1, 2))]
    assert [(m.kind, m.reference_index, m.start) for m in evidence.marks] == [
        ("removed", 0, 0),
        ("combined", 0, 1),
        ("combined", 0, 2),
        ("removed", 1, 0),
    ]


def test_as_released_takes_no_tokenizer() -> None:
    with pytest.raises(InputError, match="leave tokenizer out"):
        TbrUnigram(tokenizer="whitespace", as_released=True)
