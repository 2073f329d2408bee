"""Facts as tokens and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capmeter.text.fact_vocabulary import MARKS, OTHER_NUMBER, FactVocabulary
from capmeter.text.facts import CLOSE, NEXT, OPEN, PREDICATE, VERB, Fact, read_facts, written

WORDS = st.text("abcdef", min_size=1, max_size=4)
PHRASES = st.lists(WORDS, min_size=1, max_size=3).map(" ".join)
FACTS = st.lists(st.one_of(st.tuples(PHRASES), st.tuples(PHRASES, PHRASES, PHRASES)), max_size=5)


@given(FACTS, st.sets(PHRASES, max_size=3), st.lists(WORDS, max_size=8))
def test_what_is_written_is_read(facts: list[Fact], predicates: set[str], words: list[str]) -> None:
    tokens = written(facts, words, predicates)
    assert sorted(read_facts(tokens)) == sorted(set(facts))
    assert tokens.count(NEXT) == max(0, len(set(facts)) - 1)


@given(FACTS, st.sets(PHRASES, max_size=3), st.sets(WORDS, max_size=3))
def test_verbs_are_written_apart(facts: list[Fact], predicates: set[str], verbs: set[str]) -> None:
    tokens = written(facts, [], predicates, verbs)
    assert sorted(read_facts(tokens)) == sorted(set(facts))


def test_a_verb_and_what_follows() -> None:
    facts = [("cat", "sit on", "mat"), ("dog", "chase", "cat")]
    tokens = written(facts, ["cat", "sits", "on", "mat", "chased", "by", "dog"], {"on", ""}, {"sit", "chase"})
    assert tokens == ["cat", VERB + "sit", PREDICATE + "on", "mat", NEXT, "dog", VERB + "chase", PREDICATE, "cat"]
    assert read_facts(tokens) == facts


def test_rare_predicates_are_spelled() -> None:
    tokens = written([("cat", "stare out of", "window")], ["cat"], {"is"})
    assert tokens == ["cat", OPEN, "stare", "out", "of", CLOSE, "window"]
    assert written([("cat", "is", "red")], ["cat"], {"is"}) == ["cat", PREDICATE + "is", "red"]


def test_the_order_is_that_of_the_words() -> None:
    facts = [("cat", "on", "mat"), ("mat", "is", "red"), ("cat", "is", "black")]
    tokens = written(facts, ["a", "black", "cat", "on", "a", "red", "mat"], {"is", "on"})
    assert read_facts(tokens) == [("cat", "is", "black"), ("mat", "is", "red"), ("cat", "on", "mat")]


@pytest.mark.parametrize(
    "tokens",
    [
        [],
        [NEXT, NEXT],
        ["cat", PREDICATE + "on"],
        [PREDICATE + "on", "mat"],
        ["cat", OPEN, "on", "mat"],
        ["cat", OPEN, CLOSE, "mat"],
        ["cat", PREDICATE + "on", "mat", PREDICATE + "in", "house"],
        ["cat", CLOSE, "on", OPEN, "mat"],
        ["cat", VERB + "sit", "mat"],
        ["cat", VERB + "sit", VERB + "sit", PREDICATE + "on", "mat"],
        ["cat", PREDICATE + "on", VERB + "sit", "mat"],
    ],
)
def test_what_is_no_fact_is_left_out(tokens: list[str]) -> None:
    assert read_facts([*tokens, NEXT, "dog"]) == [("dog",)]


def test_words_that_are_in_no_vocabulary_are_numbered_by_their_first_place() -> None:
    made = FactVocabulary([*MARKS, PREDICATE + "chase", "dog"])
    sentence = made.sentence(["The", "dog", "chases", "the", "cat"], ["the", "dog", "chase", "the", "cat"])
    assert sentence.numbers == [8, 7, 10, 8, 12, 13, 14, 15, 13, 17]
    assert made.numbers([VERB + "chase"], sentence) == [15]
    tokens = ["dog", PREDICATE + "chase", "cat", "bird"]
    numbers = made.numbers(tokens, sentence)
    assert numbers == [7, 6, 12, OTHER_NUMBER]
    assert made.texts(numbers[:3], sentence) == tokens[:3]
    assert made.predicates == {"chase"}


def test_a_vocabulary_begins_with_the_marks() -> None:
    with pytest.raises(ValueError, match="begin with"):
        FactVocabulary(["dog", *MARKS])
