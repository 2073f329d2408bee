"""Triples as tokens, and back."""

from __future__ import annotations

from capmeter_research.networks.scene_graph_parser.packing import linearise_triples
from capmeter_research.networks.scene_graph_parser.triples import (
    CLOSE,
    NEXT,
    OPEN,
    PREDICATE,
    VERB,
    Triple,
    parse_triples,
)
from hypothesis import given
from hypothesis import strategies as st

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
