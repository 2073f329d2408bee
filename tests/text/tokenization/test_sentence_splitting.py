"""Sentences of captions, against CoreNLP's."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.shared_files import read_rows

from capmeter.text.tokenization.ptb import split_sentences


@pytest.mark.parametrize(
    ("tokens", "sizes"),
    [
        ([], []),
        (["A", "dog"], [2]),
        (["A", "dog", ".", "A", "cat", "."], [3, 3]),
        (["Stop", "!", "''", "he", "said", "."], [3, 3]),
        (["Done", ".", "."], [2, 1]),
        (["What", "?!", "Yes"], [2, 1]),
        (["A", "...", "dog"], [3]),
        (["(", "A", "dog", ".", "-RRB-", "Yes"], [5, 1]),
        (["''", "A", "dog"], [3]),
    ],
)
def test_ends_of_sentences(tokens: list[str], sizes: list[int]) -> None:
    assert [len(sentence) for sentence in split_sentences(tokens)] == sizes


@given(st.lists(st.sampled_from(["a", ".", "!", "?!", "''", "-RRB-", "..."])))
def test_together_the_sentences_are_the_tokens(tokens: list[str]) -> None:
    sentences = split_sentences(tokens)
    assert [token for sentence in sentences for token in sentence] == tokens
    assert all(sentences)


def test_every_caption_is_split_as_by_corenlp(shared: Path) -> None:
    parses = [
        [sentence["words"] for sentence in row["sentences"]]
        for row in read_rows(shared / "oracles" / "spice_parses.jsonl.gz")
    ]
    assert len(parses) > 30_000
    for official_sentences in parses:
        assert split_sentences([word for words in official_sentences for word in words]) == official_sentences
