"""Items through a network in batches: grouped by length, halved where memory runs out, in order, trainable."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from support.call_counts import record_progress

from capmeter.core.errors import InputError
from capmeter.encoders.batches import in_order, parallel_map, run_batches, torch_threads

torch = pytest.importorskip("torch", reason="needs the neural extra")
LENGTHS = np.random.default_rng(0).integers(1, 9, 200)


@pytest.mark.parametrize("threads", [1, 3])
def test_batches_are_of_one_length_within_the_budget_longest_first(threads: int) -> None:
    product = list(run_batches(LENGTHS, lambda rows: rows * 2, lambda length: 30 // length, threads=threads))
    visits = np.concatenate([rows for rows, _ in product])
    assert sorted(visits.tolist()) == list(range(200))
    assert (np.diff(LENGTHS[visits]) <= 0).all()
    for rows, output in product:
        assert len(set(LENGTHS[rows])) == 1 and len(rows) <= 30 // LENGTHS[rows[0]]
        assert output.tolist() == (rows * 2).tolist()
    assert len(product) == sum(-(-int((n == LENGTHS).sum()) // (30 // n)) for n in range(1, 9))
    assert in_order(product, 200) == [2 * k for k in range(200)]


def test_a_batch_is_one_item_at_least() -> None:
    assert [rows.tolist() for rows, _ in run_batches(np.array([5, 7]), len, lambda length: 0)] == [[1], [0]]
    assert list(run_batches(np.zeros(0, np.int64), len, lambda length: 1)) == []


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("x"), RuntimeError("MPS backend out of memory")])
def test_memory_running_out_halves_the_batch(error: Exception) -> None:
    sizes: list[int] = []

    def forward(rows: np.ndarray) -> np.ndarray:
        sizes.append(len(rows))
        if len(rows) > 3:
            raise error
        return rows

    product = list(run_batches(np.full(10, 4), forward, lambda length: 10))
    assert sizes == [10, 5, 2, 3, 5, 2, 3]
    assert in_order(product, 10) == list(range(10))


def test_one_item_that_does_not_fit_is_named() -> None:
    def forward(rows: np.ndarray) -> None:
        raise RuntimeError("CUDA out of memory")

    with pytest.raises(InputError, match=r"vision: one input of length 50 does not fit into the memory of cpu"):
        list(run_batches(np.full(4, 50), forward, lambda length: 4, description="vision"))


def test_other_errors_reach_the_caller() -> None:
    def forward(rows: np.ndarray) -> None:
        raise RuntimeError("shapes cannot be multiplied")

    with pytest.raises(RuntimeError, match="multiplied"):
        list(run_batches(np.full(4, 50), forward, lambda length: 4))


def test_gradients_flow_through() -> None:
    layer = torch.nn.Linear(3, 1)
    data = torch.randn(6, 3)
    product = run_batches(np.array([1, 2, 1, 2, 2, 1]), lambda rows: layer(data[rows])[:, 0], lambda length: 2)
    result = torch.stack(in_order(product, 6))
    torch.testing.assert_close(result, layer(data)[:, 0])
    result.sum().backward()
    torch.testing.assert_close(layer.weight.grad[0], data.sum(0))


def test_each_thread_sets_its_own_modes() -> None:
    def forward(rows: np.ndarray) -> tuple[int, bool]:
        with torch.inference_mode():
            return threading.get_ident(), torch.ones(1, requires_grad=True).mul(2).requires_grad

    product = list(run_batches(np.full(40, 3), forward, lambda length: 1, threads=2))
    assert not any(grad for _, (_, grad) in product)
    assert torch.ones(1, requires_grad=True).mul(2).requires_grad


def test_progress_reaches_its_total(monkeypatch: pytest.MonkeyPatch) -> None:
    steps, totals = record_progress(monkeypatch)
    list(run_batches(LENGTHS, len, lambda length: 16))
    assert totals == [200] and sum(steps) == 200


# Batches on several threads: order, errors, an early end, and torch's own threads as they were.


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
