"""Torch work on several threads in parallel, one core each, with results in the order of the items."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class _TorchThreads:
    """Torch's number of threads per operation, as it was before the runs in progress."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs, self._before = 0, 1

    def number(self) -> int:
        import torch

        with self._lock:
            return self._before if self._runs else torch.get_num_threads()

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Restores the number after a run: it is process-wide, so with concurrent runs only the first saves it."""
        import torch

        with self._lock:
            if not self._runs:
                self._before = torch.get_num_threads()
            self._runs += 1
        try:
            yield
        finally:
            with self._lock:
                self._runs -= 1
                torch.set_num_threads(self._before)


_torch = _TorchThreads()


def torch_threads() -> int:
    """The number of threads that torch would use if no run were in progress."""
    return _torch.number()


@contextmanager
def limit_threads(threads: int) -> Iterator[None]:
    """Torch's operations use this many threads meanwhile; 0 leaves their number as it is."""
    import torch

    with _torch.restored():
        if threads:
            torch.set_num_threads(threads)
        yield


def parallel_map(function: Callable[[Item], Result], items: Iterable[Item], threads: int) -> Iterator[Result]:
    """`function(item)` for each item, in order, with at most `threads` in progress and few results waiting.

    With small models, the threads of a single operation spend time waiting for each other; whole batches do not.
    """
    if threads == torch_threads() == 1:
        yield from map(function, items)
        return
    import torch

    with _torch.restored():
        thread_pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
        pending_results: deque[Future[Result]] = deque()
        try:
            for item in items:
                pending_results.append(thread_pool.submit(function, item))
                if len(pending_results) > threads:
                    yield pending_results.popleft().result()
            while pending_results:
                yield pending_results.popleft().result()
        finally:
            thread_pool.shutdown(cancel_futures=True)
