"""The parts of a run on several processes: the same work in the same order, and no more parts in memory than needed.

The processes are started anew (`spawn`), so a script that asks for workers needs Python's usual
`if __name__ == "__main__":` around its main part.
"""

from __future__ import annotations

import os
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any, TypeVar

from capmeter.captions.model import CaptionSet
from capmeter.errors import InputError

if TYPE_CHECKING:
    from capmeter.encoders.settings import Settings

Shared = TypeVar("Shared")
Result = TypeVar("Result")
Warned = list[tuple[str, type[Warning]]]
MOST = 256

_task: tuple[Callable[[Any, CaptionSet], Any], Any, Settings] | None = None


def mapped(
    work: Callable[[Shared, CaptionSet], Result], shared: Shared, parts: Iterator[CaptionSet], workers: int
) -> Iterator[Result]:
    """`work(shared, part)` of each part, in their order; `shared` goes to each process once."""
    if not 1 <= workers <= MOST:
        raise InputError(f"workers={workers}: expected a number of processes from 1 to {MOST}")
    if workers == 1:
        yield from (work(shared, part) for part in parts)
        return
    from capmeter.encoders.settings import current

    waiting: deque[Future[tuple[Result, Warned]]] = deque()
    context = get_context("spawn")
    settings = current()
    if not settings.threads:
        settings = replace(settings, threads=max(1, (os.cpu_count() or 1) // workers))
    with ProcessPoolExecutor(workers, context, _install, (work, shared, settings)) as processes:
        for part in parts:
            waiting.append(processes.submit(_run, part))
            if len(waiting) > 2 * workers:
                yield _result(waiting.popleft())
        while waiting:
            yield _result(waiting.popleft())


def _result(future: Future[tuple[Result, Warned]]) -> Result:
    result, warned = future.result()
    for message, category in warned:
        warnings.warn(message, category, stacklevel=3)
    return result


def _install(work: Callable[[Any, CaptionSet], Any], shared: Any, settings: Settings) -> None:
    global _task
    _task = work, shared, settings


def _run(part: CaptionSet) -> tuple[Any, Warned]:
    from capmeter.encoders.settings import running

    if _task is None:
        raise RuntimeError("a worker was given a part before its task")
    work, shared, settings = _task
    with running(**vars(settings)), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = work(shared, part)
    return result, [(str(each.message), each.category) for each in caught]
