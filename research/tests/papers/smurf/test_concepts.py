"""Concepts: edge cases of tokenising by hand, real captions against the released code."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
from capmeter_research.papers.smurf.concepts import Concepts, extract_concepts, normalise_caption
from hypothesis import given
from hypothesis import strategies as st
from support.shared_files import read_document

from capmeter.captions.caption_set import SentencePool
from capmeter.text.concepts import STOP_WORDS
from capmeter.text.tokenization.treebank import tokenise_words

TOKENS = {
    "a dog, a cat": ["a", "dog", ",", "a", "cat"],
    "it's 3,000 dogs:": ["it", "'s", "3,000", "dogs", ":"],
    "the dogs' bowl": ["the", "dogs", "'", "bowl"],
    "they cannot, we'll": ["they", "can", "not", ",", "we", "'ll"],
    "she isn't gonna": ["she", "is", "n't", "gon", "na"],
    'a "big" dog': ["a", "``", "big", "''", "dog"],
    "a 'walk' sign": ["a", "'walk", "'", "sign"],  # NLTK 3.5; later ones split the first quote too
    "two-wheeled (red) bike": ["two-wheeled", "(", "red", ")", "bike"],
    "a dog--a cat &more": ["a", "dog", "--", "a", "cat", "&", "more"],
    "what?! ok": ["what", "?", "!", "ok"],
    "'tis “so”": ["'t", "is", "“", "so", "”"],
    "wanna": ["wan", "na"],
    "": [],
}


@pytest.mark.parametrize(("text", "expected"), TOKENS.items())
def test_word_tokens(text: str, expected: list[str]) -> None:
    assert tokenise_words(text) == expected


def test_normalising_drops_full_stops_and_trailing_space() -> None:
    assert normalise_caption("A U.S. Dog . \n") == "a us dog"


def test_stop_words_and_tokens_with_punctuation_are_no_concepts() -> None:
    assert extract_concepts("The two-wheeled bike isn't John's; dogs are running.") == ["bike", "john", "dog", "run"]
    assert extract_concepts("A dog and a dog") == ["dog", "dog"]
    assert extract_concepts("The of and !!") == []


def test_stop_list_is_nltks(shared: Path) -> None:
    assert set(read_document(shared / "oracles" / "smurf_sparcs_flickr5664.json.gz")["stopwords"]) == STOP_WORDS


def test_concepts_of_real_captions_equal_the_released_code(shared: Path) -> None:
    official = read_document(shared / "oracles" / "smurf_concepts.json.gz")
    assert [extract_concepts(text) for text in official["preprocessed"]] == official["concepts"]


@given(st.lists(st.sampled_from(["cannot", "gonna", "dogs", "a", "2", "lemme", "wanna"]), max_size=6))
def test_plain_words_need_no_rules(words: list[str]) -> None:
    text = " ".join(words)
    assert tokenise_words(text) == [token for token in tokenise_words(f"{text} !") if token != "!"]


@given(st.text(max_size=40))
def test_any_text_gives_clean_concepts(text: str) -> None:
    for concept in extract_concepts(text):
        assert concept
        assert not set(concept) & set(string.punctuation)


def test_table_has_the_distinct_concepts_of_each_sentence() -> None:
    pool = SentencePool(["a dog and a dog", "the", "cats chase a dog"])
    table = pool.analyse(Concepts())
    assert [[table.vocabulary[k] for k in table.concepts[row]] for row in range(3)] == [
        ["dog"],
        [],
        ["dog", "cat", "chase"],
    ]
