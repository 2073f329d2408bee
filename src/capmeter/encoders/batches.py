"""Batches of items of different lengths through a network: for encoders of text, of images and of pairs.

Items of equal length form batches, the longest first, so that no item is padded and memory runs out at once or never. A
batch that does not fit into memory is halved. Gradients are not disabled here: training gets what `forward` returns.

>>> lengths = np.array([3, 5, 3])
>>> made = run_batches(lengths, lambda rows: (lengths[rows] * 10).tolist(), lambda length: 16 // length)
>>> in_order(made, 3)
[30, 50, 30]

Torch work on several threads in parallel, one core each, with results in the order of the items.

Where networks run, by the settings of a run: device, type of numbers, batch size, threads.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from capmeter.core import progress
from capmeter.core.errors import InputError
from capmeter.core.settings import Settings
from capmeter.encoders.handle import require_neural

if TYPE_CHECKING:
    import torch

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


TORCH_THREADS = _TorchThreads()
"""That of this process."""


def torch_threads() -> int:
    """The number of threads that torch would use if no run were in progress."""
    return TORCH_THREADS.number()


def parallel_map(function: Callable[[Item], Result], items: Iterable[Item], threads: int) -> Iterator[Result]:
    """`function(item)` for each item, in order, with at most `threads` in progress and few results waiting.

    With small models, the threads of a single operation spend time waiting for each other; whole batches do not.

    Args:
        function: works with torch.
        items: its arguments.
        threads: how many run at a time.
    """
    if threads == torch_threads() == 1:
        yield from map(function, items)
        return
    import torch

    with TORCH_THREADS.restored():
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


CPU_TOKENS, GPU_TOKENS = 2048, 32768  # per batch; on a CPU, a batch runs on one thread


@dataclass(frozen=True)
class Precision:
    """The device of a network, the type of its numbers, and what runs it if it is a text encoder."""

    device: str
    dtype: torch.dtype
    engine: str = "torch"

    @classmethod
    def from_settings(cls, settings: Settings) -> Precision:
        """The precision that the settings ask for."""
        device = "cpu" if settings.engine == "openvino" else device_name(settings.device)
        import torch

        half_dtype = torch.bfloat16 if device == "cpu" else torch.float16
        return cls(device, torch.float32 if settings.precision == "float32" else half_dtype, settings.engine)

    @property
    def name(self) -> str:
        """float32, float16 or bfloat16."""
        return str(self.dtype).removeprefix("torch.")


def device_name(name: str) -> str:
    """The torch device of a setting: `auto` is a GPU if there is one.

    Raises:
        InputError: the device is not available here.
        MissingBackend: torch is not installed.
    """
    require_neural()
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch_device = torch.device(name)
    except RuntimeError as error:
        raise InputError(f"device: expected auto, cpu, cuda, cuda:1 or mps, but got {name!r}") from error
    counts = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
    if (torch_device.index or 0) >= counts.get(torch_device.type, 0):
        available = [f"{kind}:{k}" if kind == "cuda" else kind for kind, count in counts.items() for k in range(count)]
        raise InputError(f"device {name!r} is not available on this machine; available: auto, {', '.join(available)}")
    return name


def batch_tokens(settings: Settings, device: str, gpu_tokens: int = GPU_TOKENS) -> int:
    """The number of tokens or patches in a batch.

    Args:
        settings: of the run, which may say it.
        device: a torch device's name.
        gpu_tokens: the default on a GPU.
    """
    return settings.tokens or (CPU_TOKENS if device == "cpu" else gpu_tokens)


def batch_threads(settings: Settings, device: str) -> int:
    """The number of batches that run concurrently, each on one CPU thread; 1 on a GPU."""
    return (settings.threads or torch_threads()) if device == "cpu" else 1


def to_numpy(tensor: torch.Tensor) -> NDArray[np.float32]:
    """The tensor as an array in float32."""
    import torch

    array: NDArray[np.float32] = tensor.to("cpu", torch.float32).numpy()
    return array


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
        text = str(error).lower()
        is_memory = isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in text
        if not (is_memory or "out of memory" in text):
            raise
        if len(rows) == 1:
            raise _TooLargeError from error
    if device != "cpu":  # outside the handler, whose exception still references the failed pass's tensors
        torch.cuda.empty_cache()
    half_count = len(rows) // 2
    return [output for half in (rows[:half_count], rows[half_count:]) for output in _halving(half, forward, device)]


def in_order(batches: Iterable[tuple[Rows, Sequence[Any]]], count: int) -> list[Any]:
    """The outputs for `count` items, in the items' original order."""
    ordered_outputs: list[Any] = [None] * count
    for rows, output in batches:
        for item_index, item_output in zip(rows.tolist(), output, strict=True):
            ordered_outputs[item_index] = item_output
    return ordered_outputs
