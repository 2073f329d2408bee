"""Triples as tokens and back."""

from __future__ import annotations

import pytest
from capmeter_research.networks.scene_graph_parser.triples import (
    CLOSE,
    NEXT,
    OPEN,
    PREDICATE,
    SPECIAL_TOKENS,
    UNKNOWN_ID,
    VERB,
    DecoderVocabulary,
    parse_triples,
)


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
