"""Which captions end in a function word: by hand, and on captions of real systems."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.shared_files import read_rows

from capmeter.captions.words import is_truncated


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("a room with a bed and a", True),
        ("A man rides a horse in The.", True),
        ("two cats on a sofa with … ", True),
        ("a dog on the grass", False),
        ("children who play with it", False),
        ("the letter à", False),
        ("the cat's", False),
        ("", False),
        ("a", False),
        ("on l'a", False),
        ("?!", False),
        ("a " * 50_000, True),
        ("!" * 50_000, False),
        ("x" * 50_000 + " a", True),
    ],
)
def test_the_last_word_decides(caption: str, expected: bool) -> None:
    assert is_truncated(caption) is expected


def test_systems_and_people_as_known(shared: Path) -> None:
    path = shared / "data" / "coco_karpathy_test_captions.jsonl.gz"
    rows = read_rows(path)
    counts = {
        system: sum(is_truncated(row["captions"][system]) for row in rows)
        for system in ("m2_transformer", "llava15_7b_brief", "smurf_human", "smurf_system_3", "blip2")
    }
    # the first two stop in the middle of a sentence
    assert counts == {
        "m2_transformer": 1720,
        "llava15_7b_brief": 590,
        "smurf_human": 31,
        "smurf_system_3": 4,
        "blip2": 3,
    }
