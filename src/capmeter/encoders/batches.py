"""Batches of items of different lengths through a network: for encoders of text, of images and of pairs.

Items of equal length form batches, the longest first, so that no item is padded and memory runs out at once or never. A
batch that does not fit into memory is halved. Gradients are not disabled here: training gets what `forward` returns.

>>> lengths = np.array([3, 5, 3])
>>> made = run_batches(lengths, lambda rows: (lengths[rows] * 10).tolist(), lambda length: 16 // length)
>>> in_order(made, 3)
[30, 50, 30]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from capmeter.core import progress
from capmeter.core.errors import InputError
from capmeter.encoders.parallel_map import parallel_map

Rows = NDArray[np.int64]
Output = TypeVar("Output")


def run_batches(
    lengths: NDArray[Any],
    forward: Callable[[Rows], Output],
    budget: Callable[[int], int],
    *,
    threads: int = 1,
    device: str = "cpu",
    description: str = "encoding",
) -> Iterator[tuple[Rows, Output]]:
    """Runs `forward` on batches of the items, and yields each batch's rows with its output.

    Args:
        lengths: int[n], the cost of each item: its tokens or patches; equal if all items are alike.
        forward: maps the positions int64[b] of items of equal length to their output. With several threads it runs in
            each of them, so it must set torch's modes itself (`torch.inference_mode`, autocast).
        budget: maps a length to the number of items in a batch; at least one is taken.
        threads: concurrent batches, each on one core; 1 on a GPU and when gradients are needed.
        device: where the network runs, for memory management and error messages.
        description: the label of the progress bar.

    Raises:
        InputError: a single item does not fit into memory.
    """
    length_order = np.argsort(-lengths, kind="stable")
    groups = np.split(length_order, np.flatnonzero(np.diff(lengths[length_order])) + 1) if len(length_order) else []

    def batches() -> Iterator[Rows]:
        for length_group in groups:
            batch_size = max(1, budget(int(lengths[length_group[0]])))
            for batch_start in range(0, len(length_group), batch_size):
                yield length_group[batch_start : batch_start + batch_size]

    def work(rows: Rows) -> list[tuple[Rows, Output]]:
        try:
            return _halving(rows, forward, device)
        except _TooLargeError as error:
            raise InputError(
                f"{description}: one input of length {lengths[rows[0]]} does not fit into the memory of {device}; "
                "choose another device, a smaller model or a shorter input"
            ) from error

    with progress.task(description, total=len(length_order)) as advance:
        for batch_outputs in parallel_map(work, batches(), threads):
            for rows, output in batch_outputs:
                yield rows, output
                advance(len(rows))


class _TooLargeError(Exception):
    """A single item does not fit into memory."""


def _halving(rows: Rows, forward: Callable[[Rows], Output], device: str) -> list[tuple[Rows, Output]]:
    """One pass, or two of half the size if memory runs out."""
    import torch

    try:
        return [(rows, forward(rows))]
    except (torch.OutOfMemoryError, RuntimeError) as error:
        if not _out_of_memory(error):
            raise
        if len(rows) == 1:
            raise _TooLargeError from error
    if device != "cpu":  # outside the handler, whose exception still references the failed pass's tensors
        torch.cuda.empty_cache()
    half_count = len(rows) // 2
    return [output for half in (rows[:half_count], rows[half_count:]) for output in _halving(half, forward, device)]


def _out_of_memory(error: BaseException) -> bool:
    import torch

    text = str(error).lower()
    return isinstance(error, torch.OutOfMemoryError) or "out of memory" in text or "can't allocate memory" in text


def in_order(batches: Iterable[tuple[Rows, Sequence[Any]]], count: int) -> list[Any]:
    """The outputs for `count` items, in the items' original order."""
    ordered_outputs: list[Any] = [None] * count
    for rows, output in batches:
        for item_index, item_output in zip(rows.tolist(), output, strict=True):
            ordered_outputs[item_index] = item_output
    return ordered_outputs
