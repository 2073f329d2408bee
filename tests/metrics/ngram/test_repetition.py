"""R@4 and distinct n-grams: by hand, as properties, and R@4 of real paragraphs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.shared_files import read_rows

import capmeter
from capmeter.core.errors import InputError
from capmeter.evaluation.registry import parse


def test_by_hand() -> None:
    texts = ["go go go go go", "a b c d e", "a b c", "", "a b a b"]
    results = capmeter.score(
        candidates=texts, references=[["x"]] * 5, metrics="repetition,repetition(n=2),distinct,distinct(n=1)"
    )
    assert results["repetition"].items.array.tolist() == [0.5, 0, 0, 0, 0]  # two 4-grams, one kind
    assert results["repetition(n=2)"].items.array.tolist() == pytest.approx([0.75, 0, 0, 0, 1 / 3])
    assert results["distinct"].items.array.tolist() == pytest.approx([0.25, 1, 1, 1, 2 / 3])
    assert results["distinct(n=1)"].items.array.tolist() == pytest.approx([0.2, 1, 1, 1, 0.5])
    assert results["distinct"].notes["empty candidate"] == ["3"]


@given(st.lists(st.sampled_from("abc"), max_size=30), st.integers(1, 5))
def test_they_count_distinct_ngrams(words: list[str], n: int) -> None:
    grams = [tuple(words[k : k + n]) for k in range(len(words) - n + 1)]
    expected = len(set(grams)) / len(grams) if grams else 1.0
    names = [f"distinct(n={n})", f"repetition(n={n},tokenizer=ptb)"]
    results = capmeter.score(candidates=[" ".join(words)], references=[["x"]], metrics=names)
    assert [each.score for each in results.values()] == pytest.approx([expected, 1 - expected])


def test_no_references_are_needed_and_n_is_checked() -> None:
    assert parse("repetition").needs == frozenset()
    with pytest.raises(InputError, match="repetition: expected n from 1 to 16, but got 0"):
        parse("repetition(n=0)")


@pytest.mark.parametrize(("data", "system"), [("youcook2", "MART"), ("activitynet", "COOT")])
def test_paragraphs_of_video_captioners(data: str, system: str, shared: Path) -> None:
    expected = json.loads((shared / "oracles" / "dense_expected.json").read_text())["paragraphs"][f"{data} {system}"]
    rows = [row for row in read_rows(shared / "data" / f"paragraphs_{data}.jsonl.gz") if row["system"] == system]
    results = capmeter.score(
        candidates={row["image_id"]: row["candidate"] for row in rows},
        references={row["image_id"]: row["references"] for row in rows},
        metrics="repetition,bleu-4,rouge-l,cider-d",
    )
    assert len(rows) == expected["paragraphs"]
    assert results["repetition"].score == pytest.approx(expected["R@4"], abs=1e-6)
    for name in ("bleu-4", "rouge-l", "cider-d"):
        assert results[name].score == pytest.approx(expected[name], abs=1e-6)
