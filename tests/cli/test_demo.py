"""`capmeter demo`: everything that a newcomer needs, in a folder of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.command_line import capmeter

from capmeter.evaluation.results import read_all

ROOT = Path(__file__).resolve().parents[2]


def test_the_folder_has_captions_scores_and_the_page(tmp_path: Path) -> None:
    done = capmeter("demo", "new", "--format", "csv", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {each.name for each in (tmp_path / "new").iterdir()} == {
        *(f"{system}.json" for system in ("human", "strong", "weak", "broken")),
        *("references.json", "scores.json", "report.html"),
    }
    for name in ("references.json", "weak.json"):
        assert (tmp_path / "new" / name).read_bytes() == (ROOT / "examples" / name).read_bytes()
    scores = read_all(tmp_path / "new" / "scores.json")
    assert list(scores) == ["human", "strong", "weak", "broken"]
    assert round(scores["strong"]["cider-d"].score, 4) == 0.8217
    assert "strong,cider-d" in done.stdout and "0.8217" in done.stdout
    assert "capmeter view" in done.stderr
    assert "<title>Example captions" in (tmp_path / "new" / "report.html").read_text("utf-8")


def test_without_the_page_s_extra_everything_else_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    done = capmeter("demo", "new", folder=tmp_path)
    assert done.returncode == 0 and "capmeter[report]" in done.stderr and "wrote new:" in done.stderr
    assert (tmp_path / "new" / "scores.json").is_file() and not (tmp_path / "new" / "report.html").exists()


def test_the_files_are_what_other_commands_read(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    assert capmeter("demo", folder).returncode == 0
    scored = capmeter("score", "strong.json", "-r", "references.json", "-m", "cider-d", folder=folder)
    assert scored.returncode == 0 and "0.8217" in scored.stdout


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_nothing_that_is_there_is_changed(tmp_path: Path, kind: str) -> None:
    location = tmp_path / "mine"
    if kind == "file":
        location.write_text("mine")
    else:
        location.mkdir()
        (location / "strong.json").write_text("mine")
    done = capmeter("demo", location)
    assert done.returncode == 1 and "choose another" in done.stderr
    remaining = location if kind == "file" else location / "strong.json"
    assert remaining.read_text() == "mine" and (kind == "file" or len(list(location.iterdir())) == 1)
