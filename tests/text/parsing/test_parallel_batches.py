"""Numpy on several threads: order of results, errors, and the number of BLAS's threads afterwards."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from capmeter.text.parsing.network import _map_in_threads


def blas_threads() -> list[int]:
    """Of numpy's BLAS; scipy brings one of its own, if a test has loaded it."""
    infos = (each for each in threadpool_info() if each["user_api"] == "blas")
    return [each["num_threads"] for each in infos if "scipy.libs" not in each["filepath"]]


def test_results_are_in_order() -> None:
    matrices = [np.full((8, 8), number, np.float32) for number in range(40)]
    before = blas_threads()
    assert [int(product[0, 0]) for product in _map_in_threads(lambda each: each @ each, matrices)] == [
        8 * number * number for number in range(40)
    ]
    assert blas_threads() == before
    assert list(_map_in_threads(str, [])) == []


def test_the_number_of_threads_is_that_of_blas() -> None:
    together = threading.Barrier(2, timeout=20)

    def meet(_: int) -> list[int]:
        together.wait()  # a single thread would time out
        return blas_threads()

    with threadpool_limits(2, "blas"):
        if max(blas_threads()) < 2:
            pytest.skip("numpy's BLAS has one thread here")
        assert {count for counts in _map_in_threads(meet, [0, 1, 2, 3]) for count in counts} == {1}
        assert max(blas_threads()) == 2


def test_one_thread_if_blas_has_one() -> None:
    with threadpool_limits(1, "blas"):
        assert len(set(_map_in_threads(lambda _: threading.get_ident(), range(20)))) == 1


def test_an_error_ends_the_work_and_releases_the_lock() -> None:
    before = blas_threads()
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            list(_map_in_threads(lambda number: 1 // number, [1, 0, 2]))
    unfinished = _map_in_threads(str, [1, 2, 3])
    assert next(unfinished) == "1"
    unfinished.close()  # type: ignore[attr-defined]
    assert blas_threads() == before
    assert list(_map_in_threads(str, [4, 5])) == ["4", "5"]
