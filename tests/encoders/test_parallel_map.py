"""Batches on several threads: order, errors, an early end, and torch's own threads as they were."""

from __future__ import annotations

import threading

import pytest

from capmeter.encoders.batches import parallel_map, torch_threads

torch = pytest.importorskip("torch", reason="needs the neural extra")


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_the_order_of_the_items(threads: int) -> None:
    before = torch.get_num_threads()
    visits: list[int] = []

    def work(number: int) -> int:
        visits.append(torch.get_num_threads())
        return number * number

    assert list(parallel_map(work, range(40), threads)) == [number * number for number in range(40)]
    assert visits == [1] * 40
    assert torch.get_num_threads() == before


def test_items_are_taken_only_as_far_as_results_are() -> None:
    selection: list[int] = []

    def items():  # type: ignore[no-untyped-def]
        for number in range(1000):
            selection.append(number)
            yield number

    results = parallel_map(str, items(), 2)
    assert [next(results) for _ in range(3)] == ["0", "1", "2"]
    assert len(selection) <= 8
    before = threading.active_count()
    results.close()  # type: ignore[attr-defined]
    assert threading.active_count() < before


def test_an_error_in_the_work_reaches_the_caller() -> None:
    before = torch.get_num_threads()
    with pytest.raises(ZeroDivisionError):
        list(parallel_map(lambda number: 1 // number, [1, 0, 1], 2))
    assert torch.get_num_threads() == before


def test_runs_at_once_leave_torchs_threads_as_they_were() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        long, short = (parallel_map(str, range(20), 2) for _ in range(2))
        numbers: list[int] = []

        def other() -> None:  # begins while the first is under way and ends after it
            next(long)
            numbers.append(torch_threads())

        next(short)
        started = threading.Thread(target=other)
        started.start()
        started.join()
        list(short)
        threading.Thread(target=list, args=(long,)).run()
        finished = threading.Thread(target=lambda: numbers.append(torch.get_num_threads()))
        finished.start()
        finished.join()
        assert numbers == [3, 3] and torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
