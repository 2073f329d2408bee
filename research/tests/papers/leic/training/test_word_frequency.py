"""Shares of words by their rank among people's words."""

from __future__ import annotations

import pytest
from capmeter_research.papers.leic.training.word_frequency import word_frequency

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.errors import InputError


def test_shares_by_rank() -> None:
    words = [f"w{chr(97 + k // 26)}{chr(97 + k % 26)}" for k in range(40)]
    references = tuple(" ".join(words[: 40 - k]) for k in range(40))  # the first word is the most frequent
    people = CaptionSet.from_captions([Caption("1", "1", f"{words[0]} {words[0]} {words[20]} zzz", references)])
    result = word_frequency({"a": people}, bins=3)
    assert result.ranges == ((1, 16), (17, 32), (33, 40))
    total = sum(range(1, 41))
    expected = [sum(range(25, 41)), sum(range(9, 25)), sum(range(1, 9)), 0]
    assert result.human.tolist() == pytest.approx([each / total for each in expected])
    assert result.systems["a"].tolist() == [0.5, 0.25, 0.0, 0.25]


def test_no_references() -> None:
    with pytest.raises(InputError, match="the references have no words"):
        word_frequency({"a": CaptionSet.from_captions([Caption("1", "1", "a dog")])})
