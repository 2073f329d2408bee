"""`capmeter validate` as someone runs it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from capmeter.cli.main import main


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["capmeter", "validate", *map(str, arguments)])
    with pytest.raises(SystemExit) as leaving:
        main()
    return int(leaving.value.code or 0)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    candidates, references = tmp_path / "a.json", tmp_path / "b.json"
    candidates.write_text(json.dumps([{"image_id": 1, "caption": "a dog"}, {"image_id": 2, "caption": "a cat"}]))
    references.write_text(json.dumps({"1": ["the dog"], "2": ["the cat", "a kitten"], "3": ["a bus"]}))
    return candidates, references


def test_good(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], pair: tuple[Path, Path]) -> None:
    assert run(monkeypatch, pair[0], "--references", pair[1]) == 0
    display = capsys.readouterr().out
    assert display.startswith(f"{pair[0]}: good, with warnings\n  format                                     coco\n")
    assert "references per caption                     min 1, median 1.5, max 2\n" in display
    assert "warning: images with references but no candidate: 1 (3)\n" in display
    pair[0].write_text(json.dumps([{"video_id": k, "caption": "a dog"} for k in (1, 2)]))
    assert run(monkeypatch, pair[0], "--references", pair[1]) == 0
    display = capsys.readouterr().out
    assert "\n  videos  " in display and "warning: videos with references but no candidate: 1 (3)\n" in display


def test_bad(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], pair: tuple[Path, Path]) -> None:
    pair[1].write_text('{"1": ["the dog"]}')
    assert run(monkeypatch, pair[0], "-r", pair[1]) == 1
    assert "problem: candidates without references: 1 of 2 (2)\n" in capsys.readouterr().out
    pair[0].write_text("[")
    assert run(monkeypatch, pair[0]) == 1
    assert "a.json: bad\n  problem: " in capsys.readouterr().out


def test_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], pair: tuple[Path, Path]) -> None:
    assert run(monkeypatch, pair[1], "--format", "json", "--side", "references") == 0
    content = json.loads(capsys.readouterr().out)
    assert content["ok"] is True
    assert content["facts"]["images"] == 3
    pair[1].write_text('{"1": 3}')
    assert run(monkeypatch, pair[0], "-r", pair[1], "--format", "json") == 1
    content = json.loads(capsys.readouterr().out)
    assert content["ok"] is False
    assert "the number 3" in content["problems"][0]


@pytest.mark.parametrize("wrong", [["--format", "xml"], ["--side", "middle"], []])
def test_wrong_use(monkeypatch: pytest.MonkeyPatch, wrong: list[str]) -> None:
    assert run(monkeypatch, *(["x.json"] if wrong else []), *wrong) == 2
