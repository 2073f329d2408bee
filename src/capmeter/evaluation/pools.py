"""What runs the parts of a run: this process, several, or anything else with a `map` (`capmeter.integrations.ray`).

Processes are started with `spawn`, so a script that uses them needs Python's usual `if __name__ == "__main__":` around
its main code. A process that is lost is started again, and its part is run again.
"""

from __future__ import annotations

import os
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from capmeter.core.errors import InputError
from capmeter.core.settings import Settings

if TYPE_CHECKING:
    from concurrent.futures import Future

    from capmeter.evaluation.base import Metric

Item = TypeVar("Item")
Result = TypeVar("Result")
Outcome = tuple[Result, list[tuple[str, type[Warning]]]]
MAX_WORKERS = 256
MAX_LOSSES = 3
"""Processes that may be lost at one part."""
_MIN_SECONDS = 15.0  # of one process, from which two save a fifth


class WorkerPool(Protocol):
    """What applies a function to each item; of captions in memory, its `workers` get at least two parts each."""

    def map(self, function: Callable[[Any], Any], items: Iterable[Any], /) -> Iterable[Any]:
        """Gives `function(item)` for each item, in order."""
        ...


class _ProcessPool:
    """Runs parts in this process (one worker), or in several, which receive the function once, and items when free."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yields `function(item)` for each item, in order; warnings and errors are raised here again.

        Raises:
            InputError: processes were lost at an item again and again.
        """
        if self.workers == 1:
            yield from map(function, items)
            return
        from concurrent.futures import ProcessPoolExecutor  # takes as long to load as half of numpy
        from concurrent.futures.process import BrokenProcessPool
        from multiprocessing import get_context

        def start() -> ProcessPoolExecutor:
            return ProcessPoolExecutor(self.workers, get_context("spawn"), _set_function, (function,))

        remaining, processes, losses = iter(items), start(), 0
        pending: deque[tuple[Item, Future[Outcome[Result]] | None]] = deque()  # None: to be submitted
        try:
            while True:
                pending += ((item, None) for item in islice(remaining, 2 * self.workers + 1 - len(pending)))
                if not pending:
                    return
                try:
                    for position, (item, future) in enumerate(pending):
                        pending[position] = item, future or processes.submit(_run_item, item)
                    outcome = pending[0][1].result()  # type: ignore[union-attr]
                except BrokenProcessPool:
                    losses += 1
                    if losses == MAX_LOSSES:
                        raise lost_workers(losses, pending[0][0]) from None
                    processes.shutdown(wait=False)
                    processes = start()
                    pending = deque((item, None) for item, _ in pending)
                    continue
                pending.popleft()
                losses = 0
                yield pass_on(outcome)
        finally:
            processes.shutdown(cancel_futures=True)


def run_apart(function: Callable[[Item], Result], item: Item) -> Outcome[Result]:
    """The result in a worker, and the warnings on the way, which `pass_on` repeats in the process that waits for it."""
    with warnings.catch_warnings(record=True) as caught_warnings:
        warnings.simplefilter("always")
        result = function(item)
    return result, [(str(caught_warning.message), caught_warning.category) for caught_warning in caught_warnings]


def pass_on(outcome: Outcome[Result]) -> Result:
    """The result of a worker, whose warnings are given again."""
    result, worker_warnings = outcome
    for message, category in worker_warnings:
        warnings.warn(message, category, stacklevel=3)
    return result


def lost_workers(losses: int, item: Any) -> InputError:
    """The error where workers are lost at an item again and again."""
    part = item[0] if isinstance(item, tuple) else item
    return InputError(
        f"{losses} workers were lost at {getattr(part, 'name', 'a part')} or beside it; is there enough memory? Use "
        "fewer workers, or smaller parts (--rows)"
    )


def choose_worker_count(captions: int, metrics: Sequence[Metric], cores: int | None = None) -> int:
    """The number of processes that is fastest for so many captions: 1, or one for each core.

    Measured on two cores (docs/scale.md): starting a process takes about three seconds of processor time, and sending
    parts a quarter of what n-gram metrics take. Threads would not help: Python runs one at a time. Metrics with
    networks, whose `MICROSECONDS` are 0, use all cores themselves.

    Args:
        captions: their number.
        metrics: all that are run.
        cores: of this machine; None: as many as it has.
    """
    cores = cores or os.cpu_count() or 1
    costs = [metric.MICROSECONDS for metric in metrics]
    return cores if all(costs) and captions * sum(costs) / 1e6 >= _MIN_SECONDS else 1


def make_pool(workers: int | WorkerPool) -> WorkerPool:
    """Returns the pool, or one with this many processes (1: this process)."""
    if hasattr(workers, "map"):
        return workers
    if not isinstance(workers, int) or not 1 <= workers <= MAX_WORKERS:
        raise InputError(f"workers={workers}: expected a number of processes from 1 to {MAX_WORKERS}")
    return _ProcessPool(workers)


def worker_settings(settings: Settings, pool: WorkerPool) -> Settings:
    """The settings of each worker: processes divide this machine's cores, unless they are set, and judges' limits."""
    if not isinstance(pool, _ProcessPool) or pool.workers == 1:
        return settings
    threads = settings.threads or max(1, (os.cpu_count() or 1) // pool.workers)
    return replace(settings, threads=threads, judging=settings.judging.divided(pool.workers))


_function: Callable[[Any], Any] | None = None  # the only task of this worker process


def _set_function(function: Callable[[Any], Any]) -> None:
    global _function
    _function = function


def _run_item(item: Any) -> Outcome[Any]:
    if _function is None:
        raise RuntimeError("a worker received a part before its task")
    return run_apart(_function, item)
