"""Spelling correction of captions' words."""

from __future__ import annotations

import pytest
from capmeter_research.networks.scene_graph_parser.factual_parser import Spelling
from hypothesis import given
from hypothesis import strategies as st

FREQUENT = ["the", "front", "shirt", "shirts", "walking", "face", "three", "vase", "sidewalk", "frisbee", "t-shirt"]
SPELLING = Spelling(FREQUENT, ["biker", "place", "skit", "happy", "hand"])


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("shirtt", "shirt"),  # insertion
        ("frisbe", "frisbee"),  # deletion
        ("frisbie", "frisbee"),  # substitution
        ("wlaking", "walking"),  # transposition
        ("shirs", "shirts"),  # deletions are more probable than substitutions
        ("vace", "vase"),  # errors in the first letter are rare
        ("thre", "the"),  # of two equally near words, the more frequent one
        ("hte", "hte"),  # too short
        ("skit", "skit"),
        ("bikers", "bikers"),
        ("placing", "placing"),
        ("placed", "placed"),
        ("happiness", "happiness"),
        ("handd", "handd"),  # no frequent word is near
        ("shirtd", "shirt"),  # "d" is not an ending
        ("wlakign", "wlakign"),  # two edits
        ("sidwealk", "sidewalk"),  # two edits of a long word
        ("infront", "in front"),
        ("frontof", "front of"),
        ("thesidewalk", "the sidewalk"),
        ("tshirt", "t-shirt"),
        ("inhand", "inhand"),  # both are known, but neither is frequent
        ("sh1rt", "sh1rt"),
        ("sh\u00edrt", "sh\u00edrt"),
        ("", ""),
    ],
)
def test_correction(word: str, expected: str) -> None:
    assert SPELLING.correct([word, "dog"]) == [*(expected.split() or [""]), "dog"]


@given(st.lists(st.text(max_size=30), max_size=5))
def test_words_stay_words(words: list[str]) -> None:
    corrected = SPELLING.correct(words)
    assert len(words) <= len(corrected) <= 2 * len(words)
    assert corrected == [each for word in words for each in SPELLING.correct([word])]
    assert SPELLING.correct(corrected) == corrected
    assert all(SPELLING.correct([word]) == [word] for word in words if SPELLING.is_correct(word))


@given(st.sampled_from(FREQUENT), st.integers(0, 10), st.sampled_from("xqz"))
def test_an_inserted_letter_is_removed(word: str, location: int, letter: str) -> None:
    misspelt = word[: min(location, len(word))] + letter + word[min(location, len(word)) :]
    assert SPELLING.correct([misspelt]) == [word] or len(misspelt) < 4 or "-" in misspelt
