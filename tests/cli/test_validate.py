"""`capmeter validate` as someone runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

Pair = tuple[Path, Path]


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    candidates, references = tmp_path / "a.json", tmp_path / "b.json"
    candidates.write_text(json.dumps([{"image_id": 1, "caption": "a dog"}, {"image_id": 2, "caption": "a cat"}]))
    references.write_text(json.dumps({"1": ["the dog"], "2": ["the cat", "a kitten"], "3": ["a bus"]}))
    return candidates, references


def test_good(run, pair: Pair) -> None:
    code, display, _ = run("validate", pair[0], "--references", pair[1])
    assert code == 0
    assert display.startswith(f"{pair[0]}: good, with warnings\n  format                                     coco\n")
    assert "references per caption                     min 1, median 1.5, max 2\n" in display
    assert "warning: images with references but no candidate: 1 (3)\n" in display
    pair[0].write_text(json.dumps([{"video_id": k, "caption": "a dog"} for k in (1, 2)]))
    code, display, _ = run("validate", pair[0], "--references", pair[1])
    assert code == 0
    assert "\n  videos  " in display and "warning: videos with references but no candidate: 1 (3)\n" in display


def test_bad(run, pair: Pair) -> None:
    pair[1].write_text('{"1": ["the dog"]}')
    code, display, _ = run("validate", pair[0], "-r", pair[1])
    assert code == 1 and "problem: candidates without references: 1 of 2 (2)\n" in display
    pair[0].write_text("[")
    code, display, _ = run("validate", pair[0])
    assert code == 1 and "a.json: bad\n  problem: " in display


def test_json(run, pair: Pair) -> None:
    code, out, _ = run("validate", pair[1], "--format", "json", "--side", "references")
    content = json.loads(out)
    assert (code, content["ok"], content["facts"]["images"]) == (0, True, 3)
    pair[1].write_text('{"1": 3}')
    code, out, _ = run("validate", pair[0], "-r", pair[1], "--format", "json")
    content = json.loads(out)
    assert (code, content["ok"]) == (1, False) and "the number 3" in content["problems"][0]


@pytest.mark.parametrize("wrong", [["--format", "xml"], ["--side", "middle"], []])
def test_wrong_use(run, wrong: list[str]) -> None:
    assert run("validate", *(["x.json"] if wrong else []), *wrong).code == 2
