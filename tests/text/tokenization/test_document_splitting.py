"""Sentences of documents: Markdown, abbreviations, scripts without blanks, hostile texts."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capmeter.text.tokenization.document_splitting import _spaced_ends, _split_document, document_sentences


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("A dog runs. It barks!", ["A dog runs.", "It barks!"]),
        ("It is red.The cat sleeps", ["It is red.", "The cat sleeps"]),
        ("Mr. Smith sits at 3.5 m. He waves.", ["Mr. Smith sits at 3.5 m.", "He waves."]),
        ("A sign, e.g. a stop sign, and J. Doe. It is old.", ["A sign, e.g. a stop sign, and J. Doe.", "It is old."]),
        ("He saw (A. Smith) there. It rained.", ["He saw (A. Smith) there.", "It rained."]),
        ("Is it red? No. It is blue, as No. 3 is.", ["Is it red?", "No.", "It is blue, as No. 3 is."]),
        ('He says "Stop." Then he runs.', ['He says "Stop."', "Then he runs."]),
        ("# Title\n\n1. **Main subject**: a cat.\n2. A `dog`", ["Title", "Main subject: a cat.", "A dog"]),
        ("Here it is:  1. The **man** sits.  2. A bus waits.", ["Here it is:", "The man sits.", "A bus waits."]),
        ("| object | color |\n|---|:--|\n| car | red |", ["object", "color", "car", "red"]),
        ("A cat\n```python\nprint('a. b. c')\n```\nsits", ["A cat", "sits"]),
        ("![a photo. of it](x.png) See [the cat](y). <b>Bold</b>", ["See the cat.", "Bold"]),
        ("snake_case_words *stay* 🐕.", ["snake_case_words stay 🐕."]),
        ("一只狗在跑。它很大。", ["一只狗在跑。", "它很大。"]),
        ("...\n---\n!!", []),
    ],
)
def test_sentences_of_documents(text: str, sentences: list[str]) -> None:
    assert _split_document(text) == sentences


def test_documents_have_three_sentences_and_sixty_words() -> None:
    assert not document_sentences("A dog runs on the grass. " * 9)
    assert not document_sentences("a dog runs on the grass " * 20)
    assert not document_sentences("A dog  runs  on  the  grass. " * 9)  # blanks are no words
    assert len(document_sentences("A dog runs on the grass. " * 10)) == 10


@given(st.text(st.sampled_from("aB. \n*_#|-`[]()!<>1~。"), max_size=80))
def test_no_word_is_invented(text: str) -> None:
    for sentence in _split_document(text):
        assert any(map(str.isalnum, sentence))
        assert set(sentence) <= set(text) | {" "}


@pytest.mark.parametrize(
    "text",
    [
        "word " * 100_000,
        "- item\n" * 5_000,
        "[" * 50_000,
        "<" * 50_000,
        "`" * 50_001,
        "*" * 50_000,
        "![" * 25_000,
        "| " * 50_000,
        "a." * 50_000,
        "> " * 20_000 + "x",
        "<!--" * 10_000,
        "```\n" * 10_001,
        "." * 100_000 + "red",
        ".)" * 50_000 + "red",
        ".-" * 50_000 + "red",
        "." + "'" * 100_000 + "red",
    ],
    ids=lambda text: text[:6],
)
def test_hostile_documents_take_bounded_time(text: str) -> None:
    started = time.process_time()
    _split_document(text)
    document_sentences(text + " word" * 60)
    assert time.process_time() - started < 5


@given(st.text(st.sampled_from("aB. \n!?)-。！"), max_size=40))
def test_texts_with_two_ends_before_blanks_may_be_documents(text: str) -> None:
    """A plain expression, which takes quadratic time, says where sentences end."""
    ends = re.findall(r"[.!?][^\w\s]*\s|[。！？\n]", text.strip())
    assert len(list(_spaced_ends(text.strip()))) == len(ends)
