"""Misspelt words of captions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capmeter.text.fact_spelling import Spelling

SPELLING = Spelling(["the", "shirt", "shirts", "walking", "frisbee", "three"], ["biker", "place", "skit", "happy"])


@pytest.mark.parametrize(
    ("written", "right"),
    [
        ("shirtt", "shirt"),  # one letter too many
        ("frisbe", "frisbee"),  # one too few
        ("frisbie", "frisbee"),  # a wrong one
        ("wlaking", "walking"),  # two swapped
        ("shirs", "shirt"),  # two are as near: the more frequent one
        ("thre", "the"),
        ("hte", "hte"),  # too short
        ("skit", "skit"),
        ("bikers", "bikers"),
        ("placing", "placing"),
        ("placed", "placed"),
        ("happiness", "happiness"),
        ("wlakign", "wlakign"),  # two changes
        ("sh1rt", "sh1rt"),
        ("shírt", "shírt"),
        ("", ""),
    ],
)
def test_what_is_corrected(written: str, right: str) -> None:
    assert SPELLING.corrected([written, "dog"]) == [right, "dog"]


@given(st.lists(st.text(max_size=30), max_size=5))
def test_words_stay_words(words: list[str]) -> None:
    made = SPELLING.corrected(words)
    assert len(made) == len(words)
    assert all(new == old or new in SPELLING.frequent for new, old in zip(made, words, strict=True))
    assert SPELLING.corrected(made) == made
