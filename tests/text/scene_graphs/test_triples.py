"""Triples as tokens and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capmeter.text.scene_graphs.decoder_vocabulary import SPECIAL_TOKENS, UNKNOWN_ID, DecoderVocabulary
from capmeter.text.scene_graphs.triples import (
    CLOSE,
    NEXT,
    OPEN,
    PREDICATE,
    VERB,
    Triple,
    linearise_triples,
    parse_triples,
)

WORDS = st.text("abcdef", min_size=1, max_size=4)
PHRASES = st.lists(WORDS, min_size=1, max_size=3).map(" ".join)
TRIPLES = st.lists(st.one_of(st.tuples(PHRASES), st.tuples(PHRASES, PHRASES, PHRASES)), max_size=5)


@given(TRIPLES, st.sets(PHRASES, max_size=3), st.lists(WORDS, max_size=8))
def test_linearised_triples_are_parsed_back(triples: list[Triple], predicates: set[str], words: list[str]) -> None:
    tokens = linearise_triples(triples, words, predicates)
    assert sorted(parse_triples(tokens)) == sorted(set(triples))
    assert tokens.count(NEXT) == max(0, len(set(triples)) - 1)


@given(TRIPLES, st.sets(PHRASES, max_size=3), st.sets(WORDS, max_size=3))
def test_linearised_triples_with_verbs_are_parsed_back(
    triples: list[Triple], predicates: set[str], verbs: set[str]
) -> None:
    tokens = linearise_triples(triples, [], predicates, verbs)
    assert sorted(parse_triples(tokens)) == sorted(set(triples))


def test_predicates_of_a_verb_and_a_preposition() -> None:
    triples = [("cat", "sit on", "mat"), ("dog", "chase", "cat")]
    tokens = linearise_triples(
        triples, ["cat", "sits", "on", "mat", "chased", "by", "dog"], {"on", ""}, {"sit", "chase"}
    )
    assert tokens == ["cat", VERB + "sit", PREDICATE + "on", "mat", NEXT, "dog", VERB + "chase", PREDICATE, "cat"]
    assert parse_triples(tokens) == triples


def test_rare_predicates_are_written_word_by_word() -> None:
    tokens = linearise_triples([("cat", "stare out of", "window")], ["cat"], {"is"})
    assert tokens == ["cat", OPEN, "stare", "out", "of", CLOSE, "window"]
    assert linearise_triples([("cat", "is", "red")], ["cat"], {"is"}) == ["cat", PREDICATE + "is", "red"]


def test_triples_are_in_the_order_of_their_mentions() -> None:
    triples = [("cat", "on", "mat"), ("mat", "is", "red"), ("cat", "is", "black")]
    tokens = linearise_triples(triples, ["a", "black", "cat", "on", "a", "red", "mat"], {"is", "on"})
    assert parse_triples(tokens) == [("cat", "is", "black"), ("mat", "is", "red"), ("cat", "on", "mat")]


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
def test_malformed_triples_are_dropped(tokens: list[str]) -> None:
    assert parse_triples([*tokens, NEXT, "dog"]) == [("dog",)]


def test_ids_of_words_outside_the_vocabulary_are_their_first_positions() -> None:
    vocabulary = DecoderVocabulary([*SPECIAL_TOKENS, PREDICATE + "chase", "dog"])
    source = vocabulary.source_tokens(["The", "dog", "chases", "the", "cat"], ["the", "dog", "chase", "the", "cat"])
    assert source.ids == [8, 7, 10, 8, 12, 13, 14, 15, 13, 17]
    assert vocabulary.ids([VERB + "chase"], source) == [15]
    tokens = ["dog", PREDICATE + "chase", "cat", "bird"]
    ids = vocabulary.ids(tokens, source)
    assert ids == [7, 6, 12, UNKNOWN_ID]
    assert vocabulary.texts(ids[:3], source) == tokens[:3]
    assert vocabulary.predicates == {"chase"}


def test_special_tokens_come_first() -> None:
    with pytest.raises(ValueError, match="begin with"):
        DecoderVocabulary(["dog", *SPECIAL_TOKENS])
