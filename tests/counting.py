"""How much work a call does, counted instead of timed: a busy machine changes no count."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def steps(call: Callable[[], object]) -> int:
    """The lines run and the functions called (Python's and C's) while something is done.

    Every turn of a loop is a line, so what is quadratic in its input counts four times as much for twice the input.
    What C does inside one call (a search in a list, a product of matrices) counts as one step: count that apart.
    """
    taken = 0

    def line(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal taken
        taken += 1
        return line

    def called(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal taken
        taken += event == "c_call"

    tracer, profiler = sys.gettrace(), sys.getprofile()
    sys.setprofile(called)
    sys.settrace(line)
    try:
        call()
    finally:
        sys.settrace(tracer)
        sys.setprofile(profiler)
    return taken
