"""Progress of long-running work: silent in a library call, bars on standard error in an interactive run, and a line
there every half minute in any other run of a command.

Long-running code opens a task and advances it; a caller that wants to see progress opens `show_progress()` around it.

>>> with task("tokens", total=2) as advance:
...     advance(1)
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from capmeter.core.messages import escape_controls, fold_line, is_terminal

if TYPE_CHECKING:
    from rich.progress import Progress

_bars: ContextVar[Progress | None] = ContextVar("capmeter_progress", default=None)
_lines: ContextVar[_Lines | None] = ContextVar("capmeter_progress_lines", default=None)
SECONDS_BETWEEN_LINES = 30.0


@contextmanager
def task(description: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """A task of `total` steps (None: unknown); yields the function to call with the number of steps just done."""
    bars = _bars.get()
    if bars is None:
        lines = _lines.get()
        yield (lambda steps: None) if lines is None else _TaskLines(description, total, lines)
        return
    task_id = bars.add_task(description, total=total)
    try:
        yield lambda steps: bars.advance(task_id, steps)
    finally:
        bars.remove_task(task_id)


class _Lines:
    """When a line of any task was written last."""

    def __init__(self) -> None:
        self.last = time.monotonic()


class _TaskLines:
    """Counts the steps of a task, and writes how far it is if no line was written for half a minute."""

    def __init__(self, description: str, total: int | None, lines: _Lines) -> None:
        self._description, self._total, self._lines = description, total, lines
        self._done, self._start = 0, time.monotonic()

    def __call__(self, steps: int) -> None:
        self._done += steps
        now = time.monotonic()
        if now - self._lines.last < SECONDS_BETWEEN_LINES:
            return
        self._lines.last = now
        rate = self._done / (now - self._start)
        line = f"{self._description}: {self._done:,}" + (f" of {self._total:,}" if self._total else "")
        units = {"a second": rate, "a minute": 60 * rate, "an hour": 3600 * rate}
        unit = next((unit for unit, number in units.items() if number >= 10), "an hour")
        line += f", {units[unit]:,.0f} {unit}"
        if self._total and rate:
            minutes, seconds = divmod(round((self._total - self._done) / rate), 60)
            line += f", {minutes:d}:{seconds:02d} minutes left"
        report_progress(line)


def report_progress(text: str) -> None:
    """A line on standard error, if progress is shown; nothing in a library call."""
    bars, line = _bars.get(), f"capmeter: {escape_controls(text)}"
    if bars is not None:
        bars.console.print(fold_line(line, bars.console.width), markup=False, highlight=False, soft_wrap=True)
    elif _lines.get() is not None:
        print(line, file=sys.stderr)


@contextmanager
def show_progress() -> Iterator[None]:
    """Shows every task opened inside on standard error: as a progress bar, or as lines if that is no terminal."""
    lines_token = _lines.set(_Lines())
    try:
        if not is_terminal(sys.stderr):
            yield
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
            bars_token = _bars.set(bars)
            try:
                yield
            finally:
                _bars.reset(bars_token)
    finally:
        _lines.reset(lines_token)
