"""`train writer` and `write` from the command line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from support.command_line import capmeter as run
from support.synthetic_photos import corpus_file, exclusions_file, made_photo

pytest.importorskip("torch", reason="training needs the neural extra")


def test_the_commands(tmp_path: Path) -> None:
    corpus, exclusions = corpus_file(tmp_path / "captions.jsonl.gz", 144), exclusions_file(tmp_path / "x.json.gz")
    made, rows = tmp_path / "writer", tmp_path / "rows.jsonl.gz"
    small = ("--steps", "200", "--batch", "16", "--pieces", "330", "--width", "32", "--strength", "100")
    done = run("train", "writer", f"coco={corpus}", "--exclusions", exclusions, "-o", made, *small, "-f", "json")
    assert done.returncode == 0, done.stderr
    assert "coco: 142 photos; 2 benchmark photos were left out" in done.stderr
    display = json.loads(done.stdout)
    assert display["writer"].startswith("writer@")
    assert 1 < display["held_out"]["perplexity"] < 20
    systems = ("--system", "weak=writer(strength=100)", "--system", "near=writer(near=0.5,decode=sample)")
    how = ("--writer", made, "--photos", "40", *systems)
    done = run("write", f"coco={corpus}", "--exclusions", exclusions, "-o", rows, *how, "--references", "--seed", "3")
    assert done.returncode == 0, done.stderr
    file_text = [json.loads(line) for line in gzip.decompress(rows.read_bytes()).splitlines()]
    assert len(file_text) == 80
    assert {row["photo"] for row in file_text}.isdisjoint({"5", "7"})
    for row in file_text:
        photo = made_photo("coco", int(row["photo"]))
        assert row["candidate"]
        assert row["references"] == [text for place, text in enumerate(photo.captions) if place not in row["read"]]
        assert len(row["read"]) == 1
    again = tmp_path / "again.jsonl.gz"
    run("write", f"coco={corpus}", "--exclusions", exclusions, "-o", again, *how, "--references", "--seed", "3")
    assert again.read_bytes() == rows.read_bytes()
    one = run("score", rows, "--system", "near", "--metrics", "cider-d", "-f", "json")  # the rows are capmeter's own
    assert one.returncode == 0, one.stderr
    link = tmp_path / "link.jsonl.gz"
    link.symlink_to(corpus)
    for inputs, option, code in (
        (("train", "writer", f"coco={corpus}", "--exclusions", exclusions, "-o", made, "--steps", "150"), "--steps", 2),
        (("write", "captions.jsonl", "-o", rows), "SOURCE=FILE", 1),
        (("write", f"coco={corpus}", "-o", link), "would be lost", 2),
        (("write", f"coco={corpus}", "-o", rows, "--exclusions", rows), "would be lost", 2),
        (("write", f"coco={corpus}", "-o", rows, "--writer", tmp_path / "none"), "no checkpoint", 3),
        (("write", f"poems={corpus}", "-o", rows, "--exclusions", exclusions), "no exclusions are listed", 1),
        (
            ("write", f"coco={corpus}", "-o", rows, "--writer", made, "--system", "a=writer", "--style", "poems"),
            "'poems'",
            1,
        ),
        (("write", f"coco={corpus}", "-o", rows, "--writer", made), "no weights of strength 300", 3),
    ):
        failed = run(*inputs)
        assert failed.returncode == code, failed.stderr
        assert option in " ".join(failed.stderr.replace("│", " ").split())
