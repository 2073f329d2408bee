"""Progress of long-running work: silent in a library call, bars on standard error in an interactive run.

Long-running code opens a task and advances it; a caller that wants to see progress opens `show_progress()` around it.

>>> with task("tokens", total=2) as advance:
...     advance(1)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from capmeter.core.messages import escape_controls, fold_line, is_terminal

if TYPE_CHECKING:
    from rich.progress import Progress

_bars: ContextVar[Progress | None] = ContextVar("capmeter_progress", default=None)
_shows_lines: ContextVar[bool] = ContextVar("capmeter_shows_lines", default=False)


@contextmanager
def task(description: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """A task of `total` steps (None: unknown); yields the function to call with the number of steps just done."""
    bars = _bars.get()
    if bars is None:
        yield lambda steps: None
        return
    task_id = bars.add_task(description, total=total)
    try:
        yield lambda steps: bars.advance(task_id, steps)
    finally:
        bars.remove_task(task_id)


def report_progress(text: str) -> None:
    """A line on standard error, if progress is shown; nothing in a library call."""
    bars, line = _bars.get(), f"capmeter: {escape_controls(text)}"
    if bars is not None:
        bars.console.print(fold_line(line, bars.console.width), markup=False, highlight=False, soft_wrap=True)
    elif _shows_lines.get():
        print(line, file=sys.stderr)


@contextmanager
def show_progress() -> Iterator[None]:
    """Shows every task opened inside as a progress bar on standard error, if that is a terminal."""
    lines_token = _shows_lines.set(True)
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
        _shows_lines.reset(lines_token)
