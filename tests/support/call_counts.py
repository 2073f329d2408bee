"""How much work a call does, counted instead of timed: a busy machine changes no count."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from capmeter.core import progress


def steps(call: Callable[[], object]) -> int:
    """The lines run and the functions called (Python's and C's) while something is done.

    Every turn of a loop is a line, so what is quadratic in its input counts four times as much for twice the input.
    What C does inside one call (a search in a list, a product of matrices) counts as one step: count that apart.
    Threads that are started meanwhile count too.
    """
    selection = itertools.count()  # whose steps are never lost between threads

    def line(frame: FrameType, event: str, argument: Any) -> Any:
        next(selection)
        return line

    def called(frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call":
            next(selection)

    tracer, profiler = sys.gettrace(), sys.getprofile()
    of_threads = threading.gettrace(), threading.getprofile()
    threading.setprofile(called)
    threading.settrace(line)
    sys.setprofile(called)
    sys.settrace(line)
    try:
        call()
    finally:
        sys.settrace(tracer)
        sys.setprofile(profiler)
        threading.settrace(of_threads[0])  # type: ignore[arg-type]
        threading.setprofile(of_threads[1])
    return next(selection)


def record_progress(monkeypatch: pytest.MonkeyPatch) -> tuple[list[int], list[int | None]]:
    """The steps of all tasks from now on, and their totals."""
    steps: list[int] = []
    totals: list[int | None] = []

    class Task:
        def __init__(self, description: str, total: int | None = None) -> None:
            totals.append(total)

        def __enter__(self) -> Callable[[int], None]:
            return steps.append

        def __exit__(self, *error: object) -> None:
            pass

    monkeypatch.setattr(progress, "task", Task)
    return steps, totals
