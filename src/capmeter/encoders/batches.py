"""Items of different lengths through a network, batch by batch: for encoders of text, of images and of pairs.

Items of equal length go together, the longest first, so no item is padded and memory runs out at once or never. A batch
that does not fit is halved. Nothing here switches gradients off: who trains gets what `forward` returns.

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

from capmeter import progress
from capmeter.encoders.side_by_side import side_by_side
from capmeter.errors import InputError

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
    """Runs `forward` on batches of the items, and gives each batch's rows with what came out.

    Args:
        lengths: int[n], what one item costs: its tokens, its patches; equal where all items are alike.
        forward: from the positions int64[b] of items of one length to whatever is made of them. With several threads it
            runs in each of them, so it sets torch's modes itself (`torch.inference_mode`, autocast).
        budget: how many items of a length make a batch; at least one is taken.
        threads: batches under way at once, each on one core; 1 on a GPU and where gradients are wanted.
        device: where the network runs, for its memory and for the error.
        description: what the progress bar says.

    Raises:
        InputError: one item alone does not fit into memory.
    """
    order = np.argsort(-lengths, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1) if len(order) else []

    def batches() -> Iterator[Rows]:
        for group in groups:
            step = max(1, budget(int(lengths[group[0]])))
            for start in range(0, len(group), step):
                yield group[start : start + step]

    def work(rows: Rows) -> list[tuple[Rows, Output]]:
        try:
            return _halving(rows, forward, device)
        except _TooLargeError as error:
            raise InputError(
                f"{description}: one input of length {lengths[rows[0]]} does not fit into the memory of {device}; "
                "choose another device, a smaller model or a shorter input"
            ) from error

    with progress.task(description, total=len(order)) as advance:
        for made in side_by_side(work, batches(), threads):
            for rows, output in made:
                yield rows, output
                advance(len(rows))


class _TooLargeError(Exception):
    """One item alone does not fit into memory."""


def _halving(rows: Rows, forward: Callable[[Rows], Output], device: str) -> list[tuple[Rows, Output]]:
    """One pass, or two of half the size where memory runs out."""
    import torch

    try:
        return [(rows, forward(rows))]
    except (torch.OutOfMemoryError, RuntimeError) as error:
        if not _out_of_memory(error):
            raise
        if len(rows) == 1:
            raise _TooLargeError from error
    if device != "cpu":  # outside of the handler, whose error holds the failed pass's tensors
        torch.cuda.empty_cache()
    middle = len(rows) // 2
    return [made for half in (rows[:middle], rows[middle:]) for made in _halving(half, forward, device)]


def _out_of_memory(error: BaseException) -> bool:
    import torch

    text = str(error).lower()
    return isinstance(error, torch.OutOfMemoryError) or "out of memory" in text or "can't allocate memory" in text


def in_order(batches: Iterable[tuple[Rows, Sequence[Any]]], count: int) -> list[Any]:
    """What came out for each of `count` items, in the items' own order."""
    restored: list[Any] = [None] * count
    for rows, output in batches:
        for row, one in zip(rows.tolist(), output, strict=True):
            restored[row] = one
    return restored
