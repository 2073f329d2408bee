"""Contrast sets: which words of one slot contradict each other."""

from __future__ import annotations

import pytest

from capmeter.text.concepts import contradicts, find_slot


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("two", "three", True),
        ("two", "2", False),
        ("a", "one", False),
        ("a", "four", True),
        ("red", "blue", True),
        ("gray", "grey", False),
        ("man", "woman", True),
        ("boy", "man", True),  # same sex, different age
        ("boy", "child", False),
        ("dogs", "cat", True),
        ("dogs", "puppy", False),
        ("dog", "car", False),
        ("Sitting", "stands", True),
        ("zorble", "zorbles", False),
    ],
)
def test_contradictions_hold_in_both_directions(one: str, other: str, expected: bool) -> None:
    assert contradicts(one, other) is expected
    assert contradicts(other, one) is expected


def test_slot_of_a_word() -> None:
    assert find_slot("umbrella") == "accessory"
    assert find_slot("joy") is None
