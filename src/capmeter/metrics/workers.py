"""Executors for the parts of a run: in this process, or in several with the same results in the same order.

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

from capmeter.captions.model import CaptionSet
from capmeter.errors import InputError
from capmeter.settings import Settings

if TYPE_CHECKING:
    from concurrent.futures import Future

    from capmeter.metrics.base import Metric

Result = TypeVar("Result")
Warned = list[tuple[str, type[Warning]]]
MOST = 256
_WORTHWHILE = 15.0  # seconds of one process from which two save a fifth of them


class Executor(Protocol):
    """Processes the parts of a run; `workers` is the number of parts processed concurrently."""

    @property
    def workers(self) -> int:
        """The number of parts processed concurrently."""
        ...

    def share(self, settings: Settings) -> Settings:
        """The settings for each worker."""
        ...

    def map(self, work: Callable[[CaptionSet], Result], parts: Iterator[CaptionSet]) -> Iterator[Result]:
        """`work(part)` for each part, in order, with no more parts in memory than needed."""
        ...


class Here:
    """One part after the other, in this process."""

    workers = 1

    def share(self, settings: Settings) -> Settings:
        """The settings, unchanged."""
        return settings

    def map(self, work: Callable[[CaptionSet], Result], parts: Iterator[CaptionSet]) -> Iterator[Result]:
        """`work(part)` of each part."""
        return map(work, parts)


class Processes:
    """Several processes; each receives `work` once, and parts as it becomes free."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def share(self, settings: Settings) -> Settings:
        """The settings with this machine's cores divided among the processes, unless a thread count was given."""
        threads = settings.threads or max(1, (os.cpu_count() or 1) // self.workers)
        return replace(settings, threads=threads)

    def map(self, work: Callable[[CaptionSet], Result], parts: Iterator[CaptionSet]) -> Iterator[Result]:
        """`work(part)` for each part; a worker's warnings and errors are raised here again."""
        from concurrent.futures import ProcessPoolExecutor  # takes as long to load as half of numpy
        from multiprocessing import get_context

        waiting: deque[Future[tuple[Result, Warned]]] = deque()
        with ProcessPoolExecutor(self.workers, get_context("spawn"), _install, (work,)) as processes:
            for part in parts:
                waiting.append(processes.submit(_run, part))
                if len(waiting) > 2 * self.workers:
                    yield _result(waiting.popleft())
            while waiting:
                yield _result(waiting.popleft())


def worthwhile(captions: Any, metrics: Sequence[Metric], cores: int | None = None) -> int:
    """The number of processes that pays for these captions and metrics: 1, or one for each core.

    Measured on two cores (docs/scale.md): processes take about three seconds of processor time to start, twice, and
    what they send to each other a quarter of what n-gram metrics take. Not threads: Python runs one at a time.
    Metrics with networks, whose `MICROSECONDS` are 0, use all cores themselves.
    """
    cores = cores or os.cpu_count() or 1
    costs = [metric.MICROSECONDS for metric in metrics]
    if cores == 1 or not all(costs) or not hasattr(captions, "__len__"):
        return 1
    return cores if len(captions) * sum(costs) / 1e6 >= _WORTHWHILE else 1


def executor(workers: int | Executor) -> Executor:
    """The executor itself, or one with this many processes (1: this process)."""
    if not isinstance(workers, int):
        return workers
    if not 1 <= workers <= MOST:
        raise InputError(f"workers={workers}: expected a number of processes from 1 to {MOST}")
    return Here() if workers == 1 else Processes(workers)


def _result(future: Future[tuple[Result, Warned]]) -> Result:
    result, warned = future.result()
    for message, category in warned:
        warnings.warn(message, category, stacklevel=3)
    return result


_work: Callable[[CaptionSet], Any] | None = None  # the task of a worker process, which has only one


def _install(work: Callable[[CaptionSet], Any]) -> None:
    global _work
    _work = work


def _run(part: CaptionSet) -> tuple[Any, Warned]:
    if _work is None:
        raise RuntimeError("a worker was given a part before its task")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = _work(part)
    return result, [(str(each.message), each.category) for each in caught]
