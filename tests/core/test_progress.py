"""Progress: silent in a library call, a line every half minute in a command without a terminal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.command_line import capmeter
from support.thousand_captions import thousand

from capmeter.core import progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def work(clock: list[float], seconds: int, total: int | None = 400) -> None:
    with progress.task("scoring", total=total) as advance:
        for _ in range(seconds):
            clock[0] += 1
            advance(2)


def test_a_line_every_half_minute(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with progress.show_progress():
        work(clock, 100)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "capmeter: scoring: 60 of 400, 120 a minute, 2:50 minutes left",
        "capmeter: scoring: 120 of 400, 120 a minute, 2:20 minutes left",
        "capmeter: scoring: 180 of 400, 120 a minute, 1:50 minutes left",
    ]
    with progress.show_progress(), progress.task("training", total=9) as advance:
        clock[0] += 450
        advance(1)
    assert capsys.readouterr().err == "capmeter: training: 1 of 9, 8 an hour, 60:00 minutes left\n"


def test_many_short_tasks_are_one_piece_of_work(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with progress.show_progress():
        for _ in range(13):
            work(clock, 5, total=None)
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_a_library_call_is_silent(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    work(clock, 100)
    assert capsys.readouterr() == ("", "")


def test_a_command_reports_on_standard_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    candidates, references, _ = thousand()
    rows = "".join(f"{text}\n" for text in candidates[:300])
    (tmp_path / "c.txt").write_text(rows)
    (tmp_path / "r.txt").write_text("".join(f"{texts[0]}\n" for texts in references[:300]))
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    result = capmeter("score", str(tmp_path / "c.txt"), "-r", str(tmp_path / "r.txt"), "-m", "rouge-l")
    assert re.search(
        r"^capmeter: scoring: [\d,]+ of 300, [\d,]+ a (second|minute), \d+:\d\d minutes left$", result.stderr, re.M
    )
    assert "a second" not in result.stdout
