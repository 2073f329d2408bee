"""Executors of the parts of a run: this process, or several with the same results in the same order.

Processes are started with `spawn`, so a script that uses workers needs Python's usual `if __name__ == "__main__":`
around its main code.
"""

from __future__ import annotations

import os
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.core.settings import Settings

if TYPE_CHECKING:
    from concurrent.futures import Future

    from capmeter.evaluation.base import Metric

Result = TypeVar("Result")
Warnings = list[tuple[str, type[Warning]]]
MAX_WORKERS = 256
_MIN_SECONDS = 15.0  # of one process, from which two save a fifth


class Executor(Protocol):
    """What processes the parts of a run."""

    @property
    def workers(self) -> int:
        """The number of parts processed concurrently."""
        ...

    def worker_settings(self, settings: Settings) -> Settings:
        """The settings for each worker."""
        ...

    def map(self, work: Callable[[CaptionSet], Result], parts: Iterator[CaptionSet]) -> Iterator[Result]:
        """Yields `work(part)` for each part, in order, with no more parts in memory than needed."""
        ...


class SerialExecutor:
    """Processes one part after the other in this process."""

    workers = 1

    def worker_settings(self, settings: Settings) -> Settings:
        """The settings, unchanged."""
        return settings

    def map(self, work: Callable[[CaptionSet], Result], parts: Iterator[CaptionSet]) -> Iterator[Result]:
        """Yields `work(part)` for each part."""
        return map(work, parts)


class ProcessExecutor:
    """Processes parts in several processes; each receives `work` once, and parts as it becomes free."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def worker_settings(self, settings: Settings) -> Settings:
        """The settings with this machine's cores, unless they set the threads, and the limits of judges divided."""
        threads = settings.threads or max(1, (os.cpu_count() or 1) // self.workers)
        return replace(settings, threads=threads, judging=settings.judging.divided(self.workers))

    def map(self, work: Callable[[CaptionSet], Result], parts: Iterator[CaptionSet]) -> Iterator[Result]:
        """Yields `work(part)` for each part, in order; a worker's warnings and errors are raised here again."""
        from concurrent.futures import ProcessPoolExecutor  # takes as long to load as half of numpy
        from multiprocessing import get_context

        pending_results: deque[Future[tuple[Result, Warnings]]] = deque()
        with ProcessPoolExecutor(self.workers, get_context("spawn"), _set_work, (work,)) as processes:
            for part in parts:
                pending_results.append(processes.submit(_run_part, part))
                if len(pending_results) > 2 * self.workers:
                    yield _await_result(pending_results.popleft())
            while pending_results:
                yield _await_result(pending_results.popleft())


def choose_worker_count(captions: Any, metrics: Sequence[Metric], cores: int | None = None) -> int:
    """The number of processes that is fastest for these captions and metrics: 1, or one for each core.

    Measured on two cores (docs/scale.md): starting a process takes about three seconds of processor time, and sending
    parts a quarter of what n-gram metrics take. Threads would not help: Python runs one at a time. Metrics with
    networks, whose `MICROSECONDS` are 0, use all cores themselves.
    """
    cores = cores or os.cpu_count() or 1
    costs = [metric.MICROSECONDS for metric in metrics]
    if cores == 1 or not all(costs) or not hasattr(captions, "__len__"):
        return 1
    return cores if len(captions) * sum(costs) / 1e6 >= _MIN_SECONDS else 1


def make_executor(workers: int | Executor) -> Executor:
    """Returns the executor, or one with this many processes (1: this process)."""
    if not isinstance(workers, int):
        return workers
    if not 1 <= workers <= MAX_WORKERS:
        raise InputError(f"workers={workers}: expected a number of processes from 1 to {MAX_WORKERS}")
    return SerialExecutor() if workers == 1 else ProcessExecutor(workers)


def _await_result(future: Future[tuple[Result, Warnings]]) -> Result:
    result, worker_warnings = future.result()
    for message, category in worker_warnings:
        warnings.warn(message, category, stacklevel=3)
    return result


_work: Callable[[CaptionSet], Any] | None = None  # the only task of this worker process


def _set_work(work: Callable[[CaptionSet], Any]) -> None:
    global _work
    _work = work


def _run_part(part: CaptionSet) -> tuple[Any, Warnings]:
    if _work is None:
        raise RuntimeError("a worker received a part before its task")
    with warnings.catch_warnings(record=True) as caught_warnings:
        warnings.simplefilter("always")
        result = _work(part)
    return result, [(str(caught_warning.message), caught_warning.category) for caught_warning in caught_warnings]
