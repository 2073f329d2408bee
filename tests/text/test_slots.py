"""Words of one slot: which words deny each other."""

from __future__ import annotations

import pytest

from capmeter.text.slots import contradicts, others, slot_of, slots


@pytest.mark.parametrize(
    ("one", "other", "denied"),
    [
        ("two", "three", True),
        ("two", "2", False),
        ("a", "one", False),
        ("a", "four", True),
        ("red", "blue", True),
        ("gray", "grey", False),
        ("man", "woman", True),
        ("boy", "man", True),  # of another age, of the same sex
        ("boy", "child", False),
        ("dogs", "cat", True),
        ("dogs", "puppy", False),
        ("dog", "car", False),
        ("Sitting", "stands", True),
        ("zorble", "zorbles", False),
    ],
)
def test_contradictions_hold_in_both_directions(one: str, other: str, denied: bool) -> None:
    assert contradicts(one, other) is denied
    assert contradicts(other, one) is denied


def test_others_fill_the_slot_with_another_meaning() -> None:
    found = others("sofa")
    assert "couch" not in found
    assert {"chair", "bed", "table"} <= set(found)
    assert all(contradicts("sofa", word) for word in found)
    assert others("joy") == ()


def test_every_slot_has_words_that_deny_each_other() -> None:
    assert len(slots()) == len(set(slots()))
    assert slot_of("umbrella") == "thing carried"
    assert slot_of("joy") is None
