"""Calls of one function in several processes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_CALLS_AHEAD = 4
"""Calls per worker whose results may wait: results are as large as a training step."""
_worker_function: list[Callable[[Any], Any]] = []  # of this process, if it is a worker


@contextmanager
def forked_map(
    function: Callable[[Item], Result], workers: int
) -> Iterator[Callable[[Iterable[Item]], Iterator[Result]]]:
    """A `map` of a function in worker processes, or in this one if there is one worker.

    The workers inherit the function and everything that it refers to (a bound method its object), without pickling.
    Items and results are pickled. Few results are computed before they are asked for.
    """
    if workers <= 1:
        yield lambda items: map(function, items)
        return
    with ProcessPoolExecutor(workers, get_context("fork"), _worker_function.append, (function,)) as pool:
        yield lambda items: _call_ahead(pool, items, _CALLS_AHEAD * workers)


def _call_ahead(pool: ProcessPoolExecutor, items: Iterable[Any], ahead: int) -> Iterator[Any]:
    pending_results: deque[Future[Any]] = deque()
    for item in items:
        pending_results.append(pool.submit(_call, item))
        if len(pending_results) >= ahead:
            yield pending_results.popleft().result()
    while pending_results:
        yield pending_results.popleft().result()


def _call(item: Any) -> Any:
    return _worker_function[-1](item)
