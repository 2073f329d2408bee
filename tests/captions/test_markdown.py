"""Candidates read as what their Markdown renders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.command_line import capmeter as command

import capmeter
from capmeter.captions.clean_texts import render_markdown
from capmeter.captions.matching import CLEANED

PLAIN = "A brown dog lies on a sofa. A clock hangs on the wall."
BOLD = "A **brown dog** lies on a *sofa*. A `clock` hangs on the [wall](https://x.org)."


def test_marks_change_no_score(tmp_path: Path) -> None:
    rows = [{"image_id": k, "candidate": text, "references": [PLAIN]} for k, text in enumerate((PLAIN, BOLD))]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    scores = capmeter.score(capmeter.load(path, clean="markdown"), "bleu-4,rouge-l")
    assert scores["bleu-4"].items["0"] == scores["bleu-4"].items["1"]
    assert scores.notes[CLEANED["markdown"]] == ["1"]
    assert "clean:markdown" in scores["rouge-l"].signature
    assert capmeter.score(capmeter.load(path), "rouge-l")["rouge-l"].items["1"] < 1
    result = command("score", str(path), "-m", "rouge-l", "--clean", "markdown")
    assert result.returncode == 0 and "1.0000" in result.stdout


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# Description\n\n- **Dog:** it runs.\n1. A cat.", "Description\nDog: it runs.\nA cat."),
        ("| dog | cat |\n|---|---|\n| runs | sleeps |", "dog\ncat\nruns\nsleeps"),
        ("```\ncode\n```\nA dog.", "A dog."),
        ("a snake_case name, 2 * 3", "a snake_case name, 2  3"),
        ("![photo](x.png)", ""),
        ("", ""),
    ],
)
def test_what_is_rendered(text: str, expected: str) -> None:
    assert render_markdown(text) == expected
