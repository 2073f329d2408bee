"""Numpy's work on several threads, one core each, with results in the order of the items.

The threads of one product of small matrices mostly wait for each other; whole batches do not. There are as many threads
as numpy's BLAS would use (`OMP_NUM_THREADS` limits both), and meanwhile BLAS uses one in each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")
_one_at_a_time = Lock()  # the number of BLAS's threads is one for the whole process


def side_by_side(work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """`work(item)` for each item, in order.

    Another call meanwhile, from another thread, uses no threads of its own or waits for its turn.
    """
    blas = _blas()
    threads = min(len(items), max((each["num_threads"] for each in blas.info()), default=1))
    if threads < 2:
        yield from map(work, items)
        return
    from concurrent.futures import ThreadPoolExecutor  # loads logging

    with _one_at_a_time, blas.limit(limits=1), ThreadPoolExecutor(threads) as pool:
        yield from pool.map(work, items)


@lru_cache(maxsize=1)
def _blas() -> ThreadpoolController:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")
