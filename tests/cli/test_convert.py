"""`capmeter convert` as someone runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    row = {"image_id": 1, "candidate": "a dog", "references": ["the dog", "dogs"], "system": "s", "licence": 3}
    path.write_text(json.dumps(row) + "\n")
    return path


def test_to_a_pair(run, rows: Path) -> None:
    results, captions = rows.with_name("results.json.gz"), rows.with_name("captions.json")
    assert run("convert", rows, results, "--to", "coco", "--references-out", captions) == (
        0,
        f"{results}: 1 candidate\n{captions}: 1 image's references\n",
        f"capmeter: note: read {rows} as jsonl (candidates)\n"
        "capmeter: note: coco cannot hold system: dropped from 1 row\n"
        "capmeter: note: unknown fields were dropped: licence\n",
    )
    assert json.loads(captions.read_text())["annotations"][1] == {"id": 2, "image_id": 1, "caption": "dogs"}
    again = rows.with_name("again.tsv")
    assert run("convert", results, again, "--to", "tsv", "--references", captions).code == 0
    assert again.read_text() == 'image_id\tcandidate\treferences\n1\ta dog\t"[""the dog"", ""dogs""]"\n'
    captions.write_text('{"1": ["a dog"], "2": ["a cat"]}')
    assert "note: references without candidate: 2\n" in run("convert", rows, again, "--references", captions).err


def test_mistakes(run, rows: Path) -> None:
    target = rows.with_name("out")
    assert run("convert", rows, target, "--to", "xml").code == 2
    assert "is standard input" in run("convert", rows, "-", "--to", "csv").err
    assert run("convert", rows, rows.with_name("out")).code == 1  # no ending says the format
    missing = run("convert", rows.with_name("none"), target, "--to", "csv")
    assert missing.code == 1 and "error: " in missing.err
    assert run("convert", rows, rows.parent, "--to", "csv").code == 1
    no_folder = run("convert", rows, rows.with_name("no") / "out", "--to", "csv")
    assert no_folder.code == 1 and "there is no folder" in no_folder.err
    assert [path.name for path in rows.parent.iterdir()] == ["rows.jsonl"]
