"""LEIC's text front end: which words are known, and windows of 15."""

from __future__ import annotations

from capmeter_research.papers.leic.vocabulary import (
    END,
    SPECIAL,
    UNKNOWN,
    CriticVocabulary,
    ReleasedTokens,
    count_words,
    tokenise_captions,
)
from hypothesis import given
from hypothesis import strategies as st

from capmeter.captions.caption_set import SentencePool
from capmeter.text.tokenization.token_tables import TokenTable


def test_the_most_frequent_words_with_enough_occurrences_are_known() -> None:
    counts = {"a": 9, "dog": 5, "cat": 5, "zebra": 4, "the": 7}
    assert CriticVocabulary.from_counts(counts).words == ("a", "the", "cat", "dog")
    assert CriticVocabulary.from_counts(counts, size=3).words == ("a", "the", "cat")
    assert CriticVocabulary.from_counts(counts, size=9, min_count=1).words == ("a", "the", "cat", "dog", "zebra")
    assert len(CriticVocabulary.from_counts(counts)) == len(SPECIAL) + 4


def test_windows_of_fifteen_words() -> None:
    words = CriticVocabulary(["a", "dog"])
    assert words.encode([]) == [END]
    assert words.encode(["dog", "zebra"]) == [5, UNKNOWN, END]
    assert words.encode(["a"] * 14) == [4] * 14 + [END]
    assert words.encode(["a"] * 15) == [4] * 15 == words.encode(["a"] * 40)


@given(st.lists(st.lists(st.sampled_from("abcdefg"), max_size=20), max_size=12))
def test_the_table_of_a_pool_is_that_of_its_sentences(sentences: list[list[str]]) -> None:
    vocabulary = CriticVocabulary("abcd")
    table = vocabulary.encode_table(TokenTable.from_lists(sentences))
    assert [table[row].tolist() for row in range(len(table))] == [vocabulary.encode(each) for each in sentences]


def test_tokens_as_published_and_as_released() -> None:
    pool = SentencePool(['A dog, "Rex", runs ... on (the) grass -- fast!'])
    assert tokenise_captions(pool, False).row(0) == (
        "a",
        "dog",
        "rex",
        "runs",
        "on",
        "-lrb-",
        "the",
        "-rrb-",
        "grass",
        "fast",
    )
    assert tokenise_captions(pool, True).row(0) == (
        *("a", "dog", "``", "rex", "''", "runs", "...", "on", "the", "grass", "--", "fast"),
    )
    assert pool.analyse(ReleasedTokens()) is tokenise_captions(pool, True)


def test_word_counts() -> None:
    table = TokenTable.from_lists([["a", "dog"], ["a"], []])
    assert count_words(table) == {"a": 2, "dog": 1}
