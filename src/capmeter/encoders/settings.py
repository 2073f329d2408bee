"""How encoders run here: device, precision, batch size, cache. None of it is part of a metric's name.

Device and batch size do not move a score (they are tested not to, beyond 1e-5); precision does: it is in signatures.

>>> with running(device="cpu", tokens=512):
...     current().tokens
512
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from capmeter.errors import InputError

PRECISIONS = ("float32", "half")
GIGABYTE = 1 << 30


@dataclass(frozen=True)
class Settings:
    """Where and how encoders run.

    device: `auto` (a CUDA GPU if there is one, else the CPU) or a torch device name: cpu, cuda, cuda:1, mps.
    precision: `float32`, or `half`: float16 on a GPU, bfloat16 on the CPU (moves BERTScore by about .002, TBR by .02).
    tokens: word pieces per batch; 0 chooses 2,048 on the CPU and 32,768 on a GPU.
    threads: batches on the CPU at a time, each on one thread; 0 is as many as torch would use (OMP_NUM_THREADS).
    cache: folder of the on-disk cache of hidden states; None keeps none. cache_bytes: its largest size.
    """

    device: str = "auto"
    precision: str = "float32"
    tokens: int = 0
    threads: int = 0
    cache: Path | None = None
    cache_bytes: int = 4 * GIGABYTE

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise InputError(f"precision: expected one of {', '.join(PRECISIONS)}, but got {self.precision!r}")
        if self.tokens < 0:
            raise InputError(f"tokens per batch: expected 0 (automatic) or more, but got {self.tokens}")
        if self.threads < 0:
            raise InputError(f"threads: expected 0 (automatic) or more, but got {self.threads}")
        if self.cache_bytes < 1:
            raise InputError(f"cache_bytes: expected a positive number of bytes, but got {self.cache_bytes}")


_chosen: ContextVar[Settings | None] = ContextVar("capmeter_encoder_settings", default=None)


def current() -> Settings:
    """The settings in force: those of the innermost `running`, else those of the environment.

    Environment: CAPMETER_DEVICE, CAPMETER_PRECISION, CAPMETER_VECTOR_CACHE (a folder).
    """
    chosen = _chosen.get()
    if chosen is not None:
        return chosen
    cache = os.environ.get("CAPMETER_VECTOR_CACHE")
    return Settings(
        device=os.environ.get("CAPMETER_DEVICE") or "auto",
        precision=os.environ.get("CAPMETER_PRECISION") or "float32",
        cache=Path(cache).expanduser() if cache else None,
    )


@contextmanager
def running(**changes: Any) -> Iterator[Settings]:
    """The current settings with `changes`, in force inside the block; a folder may be given as text."""
    if isinstance(changes.get("cache"), str):
        changes["cache"] = Path(changes["cache"]).expanduser()
    try:
        settings = replace(current(), **changes)
    except TypeError as error:
        raise InputError(f"encoder settings: {error}") from error
    token = _chosen.set(settings)
    try:
        yield settings
    finally:
        _chosen.reset(token)
