"""Misspelt words of captions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capmeter.text.fact_spelling import Spelling

FREQUENT = ["the", "front", "shirt", "shirts", "walking", "face", "three", "vase", "sidewalk", "frisbee", "t-shirt"]
SPELLING = Spelling(FREQUENT, ["biker", "place", "skit", "happy", "hand"])


@pytest.mark.parametrize(
    ("written", "right"),
    [
        ("shirtt", "shirt"),  # one letter too many
        ("frisbe", "frisbee"),  # one too few
        ("frisbie", "frisbee"),  # a wrong one
        ("wlaking", "walking"),  # two swapped
        ("shirs", "shirts"),  # a letter lost is likelier than a wrong one
        ("vace", "vase"),  # the first letter is seldom wrong
        ("thre", "the"),  # two are as near: the more frequent one
        ("hte", "hte"),  # too short
        ("skit", "skit"),
        ("bikers", "bikers"),
        ("placing", "placing"),
        ("placed", "placed"),
        ("happiness", "happiness"),
        ("handd", "handd"),  # nothing near is frequent
        ("shirtd", "shirt"),  # "d" alone derives nothing
        ("wlakign", "wlakign"),  # two changes
        ("sidwealk", "sidewalk"),  # two changes of a long word
        ("infront", "in front"),
        ("frontof", "front of"),
        ("thesidewalk", "the sidewalk"),
        ("tshirt", "t-shirt"),
        ("inhand", "inhand"),  # both are known, but nothing tells that they are often written
        ("sh1rt", "sh1rt"),
        ("sh\u00edrt", "sh\u00edrt"),
        ("", ""),
    ],
)
def test_what_is_corrected(written: str, right: str) -> None:
    assert SPELLING.corrected([written, "dog"]) == [*(right.split() or [""]), "dog"]


@given(st.lists(st.text(max_size=30), max_size=5))
def test_words_stay_words(words: list[str]) -> None:
    made = SPELLING.corrected(words)
    assert len(words) <= len(made) <= 2 * len(words)
    assert made == [right for word in words for right in SPELLING.corrected([word])]
    assert SPELLING.corrected(made) == made
    assert all(SPELLING.corrected([word]) == [word] for word in words if SPELLING.is_right(word))


@given(st.sampled_from(FREQUENT), st.integers(0, 10), st.sampled_from("xqz"))
def test_a_letter_too_many_is_found(word: str, place: int, letter: str) -> None:
    wrong = word[: min(place, len(word))] + letter + word[min(place, len(word)) :]
    assert SPELLING.corrected([wrong]) == [word] or len(wrong) < 4 or "-" in wrong
