"""`capmeter convert` as someone runs it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from capmeter.cli.main import main


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["capmeter", "convert", *map(str, arguments)])
    with pytest.raises(SystemExit) as leaving:
        main()
    return int(leaving.value.code or 0)


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    row = {"image_id": 1, "candidate": "a dog", "references": ["the dog", "dogs"], "system": "s", "licence": 3}
    path.write_text(json.dumps(row) + "\n")
    return path


def test_to_a_pair(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], rows: Path) -> None:
    results, captions = rows.with_name("results.json.gz"), rows.with_name("captions.json")
    assert run(monkeypatch, rows, results, "--to", "coco", "--references-out", captions) == 0
    out, err = capsys.readouterr()
    assert out == f"{results}: 1 candidate\n{captions}: 1 image's references\n"
    assert err == (
        f"capmeter: note: read {rows} as jsonl (candidates)\n"
        "capmeter: note: coco cannot hold system: dropped from 1 row\n"
        "capmeter: note: unknown fields were dropped: licence\n"
    )
    assert json.loads(captions.read_text())["annotations"][1] == {"id": 2, "image_id": 1, "caption": "dogs"}
    again = rows.with_name("again.tsv")
    assert run(monkeypatch, results, again, "--to", "tsv", "--references", captions) == 0
    assert again.read_text() == 'image_id\tcandidate\treferences\n1\ta dog\t"[""the dog"", ""dogs""]"\n'


def test_mistakes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], rows: Path) -> None:
    target = rows.with_name("out")
    assert run(monkeypatch, rows, target, "--to", "xml") == 2
    assert run(monkeypatch, rows.with_name("none"), target, "--to", "csv") == 1
    assert "error: " in capsys.readouterr().err
    assert run(monkeypatch, rows, rows.parent, "--to", "csv") == 1
    assert run(monkeypatch, rows, rows.with_name("no") / "out", "--to", "csv") == 1
    assert "there is no folder" in capsys.readouterr().err
    assert [path.name for path in rows.parent.iterdir()] == ["rows.jsonl"]
