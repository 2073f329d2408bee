"""Work of torch on several threads at once, each on one core, its results in the order of its items."""

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
    """How many threads torch had for one operation before the first of the runs that are under way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs, self._before = 0, 1

    def number(self) -> int:
        import torch

        with self._lock:
            return self._before if self._runs else torch.get_num_threads()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Puts the number back after a run: it is a process's, so with several runs at once the first knows it."""
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
    """How many threads torch would use, were nothing under way here."""
    return _torch.number()


def side_by_side(work: Callable[[Item], Result], items: Iterable[Item], threads: int) -> Iterator[Result]:
    """`work(item)` of each item, in their order, at most `threads` under way and few results waiting.

    Small models leave a core idle wherever the threads of one operation wait for each other; whole batches need not.
    """
    if threads == torch_threads() == 1:
        yield from map(work, items)
        return
    import torch

    with _torch.kept():
        pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
        waiting: deque[Future[Result]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)
