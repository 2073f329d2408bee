"""LEIC's text front end: which words are known, and windows of 15."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from capmeter.captions.model import SentencePool
from capmeter.metrics.leic.vocabulary import (
    END,
    SPECIAL,
    UNKNOWN,
    CriticVocabulary,
    ReleasedTokens,
    tokens_of,
    word_counts,
)
from capmeter.text.tokens import TokenTable


def test_the_most_frequent_words_with_enough_occurrences_are_known() -> None:
    counts = {"a": 9, "dog": 5, "cat": 5, "zebra": 4, "the": 7}
    assert CriticVocabulary.learn(counts).words == ("a", "the", "cat", "dog")
    assert CriticVocabulary.learn(counts, most=3).words == ("a", "the", "cat")
    assert CriticVocabulary.learn(counts, most=9, least=1).words == ("a", "the", "cat", "dog", "zebra")
    assert len(CriticVocabulary.learn(counts)) == len(SPECIAL) + 4


def test_windows_of_fifteen_words() -> None:
    words = CriticVocabulary(["a", "dog"])
    assert words.numbers([]) == [END]
    assert words.numbers(["dog", "zebra"]) == [5, UNKNOWN, END]
    assert words.numbers(["a"] * 14) == [4] * 14 + [END]
    assert words.numbers(["a"] * 15) == [4] * 15 == words.numbers(["a"] * 40)


@given(st.lists(st.lists(st.sampled_from("abcdefg"), max_size=20), max_size=12))
def test_the_table_of_a_pool_is_that_of_its_sentences(sentences: list[list[str]]) -> None:
    vocabulary = CriticVocabulary("abcd")
    table = vocabulary.table(TokenTable.from_lists(sentences))
    assert [table[row].tolist() for row in range(len(table))] == [vocabulary.numbers(each) for each in sentences]


def test_tokens_as_published_and_as_released() -> None:
    pool = SentencePool(['A dog, "Rex", runs ... on (the) grass -- fast!'])
    assert tokens_of(pool, False).row(0) == ("a", "dog", "rex", "runs", "on", "-lrb-", "the", "-rrb-", "grass", "fast")
    assert tokens_of(pool, True).row(0) == (
        *("a", "dog", "``", "rex", "''", "runs", "...", "on", "the", "grass", "--", "fast"),
    )
    assert pool.analyse(ReleasedTokens()) is tokens_of(pool, True)


def test_word_counts() -> None:
    table = TokenTable.from_lists([["a", "dog"], ["a"], []])
    assert word_counts(table) == {"a": 2, "dog": 1}
