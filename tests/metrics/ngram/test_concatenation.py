"""BLEU and ROUGE-L against all references joined into one text."""

from __future__ import annotations

import pytest
from support.caption_sets import caption_set

import capmeter
from capmeter.core.errors import InputError
from capmeter.evaluation.base import RunContext
from capmeter.evaluation.registry import parse

ROWS = [
    ("A dog runs, and a cat sleeps.", ["a dog runs", "...", "the cat sleeps"]),
    ("", ["a dog"]),
    ("dog", ["", "a dog"]),
]
JOINED = [("a dog runs and a cat sleeps", ["a dog runs the cat sleeps"]), ("", ["a dog"]), ("dog", ["a dog"])]


@pytest.mark.parametrize("metric", ["bleu-1", "bleu-4", "rouge-l"])
def test_cat_is_the_score_against_the_joined_tokens(metric: str) -> None:
    results = capmeter.score(caption_set(ROWS), f"{metric}(references=cat)")[f"{metric}(references=cat)"]
    expected = capmeter.score(caption_set(JOINED), metric)[metric]
    assert results.items.array.tolist() == expected.items.array.tolist()
    assert results.score == expected.score
    assert "references:cat" in results.signature and "tokenizer:ptb" in results.signature
    assert results.notes["empty candidate"] == ["i1"] and results.notes == expected.notes


@pytest.mark.parametrize("metric", ["bleu-2", "rouge-l"])
def test_cat_is_explained_on_the_joined_text(metric: str) -> None:
    evidence = parse(f"{metric}(references=cat)").explain(caption_set(ROWS[:1]), RunContext())[0]
    assert evidence.references == (("a", "dog", "runs", "the", "cat", "sleeps"),)


def test_each_and_cat_are_the_choices() -> None:
    assert str(parse("bleu-1(references=each)")) == "bleu-1"
    for metric in ("bleu-1", "rouge-l"):
        with pytest.raises(InputError, match="references=all is not each or cat"):
            parse(f"{metric}(references=all)")
