"""The shipped example captions: whole, and ordered as their qualities are."""

from __future__ import annotations

from pathlib import Path

import pytest

import capmeter
from capmeter.captions.validation import examine

FOLDER = Path(__file__).resolve().parents[1] / "examples"
SYSTEMS = ("human", "strong", "weak", "broken")


@pytest.mark.parametrize("system", SYSTEMS)
def test_whole(system: str) -> None:
    captions = capmeter.load(FOLDER / f"{system}.json", FOLDER / "references.json")
    assert len(captions) == 36
    assert set(captions.references.lengths.tolist()) == {5}
    assert captions.notes == {}
    findings = examine(FOLDER / f"{system}.json", FOLDER / "references.json")
    assert findings.problems == []
    assert len(findings.warnings) == (2 if system == "broken" else 0), "its empty caption, and its truncated ones"


def test_order() -> None:
    scores = {}
    for system in SYSTEMS:
        captions = capmeter.load(FOLDER / f"{system}.json", FOLDER / "references.json")
        scores[system] = capmeter.score(captions, ["cider-d"])["cider-d"].score
    assert min(scores["human"], scores["strong"]) > 2 * scores["weak"] > 2 * scores["broken"] > 0
