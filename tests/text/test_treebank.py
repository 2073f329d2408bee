"""Tokens as NLTK's `word_tokenize` gives them, also of captions of several sentences."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capmeter.text.tokenization.treebank import tokenise_caption

EXPECTED = {
    "A dog. It ran.": "a dog . it ran .",
    "a dog.It ran": "a dog.it ran",
    "(A dog.) Two": "( a dog . ) two",
    "Wait... a dog\n.": "wait ... a dog .",
    "a man’s dog — the dog’s": "a man ’ s dog — the dog ’ s",
    "It costs 3,000.50, cannot it?": "it costs 3,000.50 , can not it ?",
    "": "",
}


@pytest.mark.parametrize("caption", EXPECTED)
def test_tokens_of_sentences(caption: str) -> None:
    assert tokenise_caption(caption) == EXPECTED[caption].split()


@given(st.lists(st.from_regex(r"[a-z]{1,6}", fullmatch=True), max_size=8))
def test_plain_words_are_tokens(words: list[str]) -> None:
    text = " ".join(words)
    assert "".join(tokenise_caption(text + " .")) == "".join(words) + "."
