"""How a run uses this machine: device, precision, batch size, threads, cache. None of it is part of a metric's name.

Settings are a value that is passed on: to `score`, from there in each metric's context, from there to the encoders.
Device, batch size and threads do not change scores (tested to 1e-5); precision does, and is part of signatures.

>>> Settings(device="cpu", tokens=512).tokens
512
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from capmeter.core.assets import cache_folder
from capmeter.core.caches import MEMORY_BYTES, MemoryCache, ResultCache, shared_memory
from capmeter.core.errors import InputError
from capmeter.core.judge_limits import JudgeLimits

if TYPE_CHECKING:
    from capmeter.core.disk_cache import DiskCache

PRECISIONS = ("float32", "half")
GIGABYTE = 1 << 30
_REFERENCE_BYTES = GIGABYTE // 2


def _environment_cache() -> Path | None:
    folder = os.environ.get("CAPMETER_VECTOR_CACHE")
    return Path(folder) if folder else None


def _environment_references() -> Path | None:
    folder = os.environ.get("CAPMETER_REFERENCE_CACHE")
    if folder is None:
        return cache_folder("references")
    return Path(folder) if folder else None


# checked here, so that a mistyped device is an error even where no metric of the run needs one
_DEVICE = re.compile(r"auto|(cpu|cuda|mps|xpu|hpu|npu|xla)(:\d+)?")


@dataclass(frozen=True)
class Settings:
    """Where and how encoders run.

    Defaults come from the environment (CAPMETER_DEVICE, CAPMETER_PRECISION, CAPMETER_VECTOR_CACHE), else:

    device: `auto` (a CUDA GPU if there is one, else the CPU) or a torch device name: cpu, cuda, cuda:1, mps.
    precision: `float32`, or `half`: float16 on a GPU, bfloat16 on the CPU, in encoders of the BERT family for matrix
    products alone (changes BERTScore by up to .001, TBR by .03).
    tokens: word pieces per batch; 0 means 2,048 on the CPU and 32,768 on a GPU.
    threads: concurrent batches on the CPU, one thread each; 0 means as many as torch would use (OMP_NUM_THREADS).
    cache: folder of the disk cache of hidden states, parses and scenes; None disables it. cache_bytes: its maximum
    size.
    references: folder of the disk cache of the tables of references (tokens, n-grams, METEOR's look-ups), half a
    gigabyte at most, from which the next run on the same references starts; None disables it. By default
    CAPMETER_REFERENCE_CACHE (empty: None), else `references` in the user's cache folder (CAPMETER_CACHE).
    judging: limits of the questions to language models that judge captions.
    memory: the in-memory cache of results; by default the one that all runs of the process share.

    Raises `InputError` if a value is not one of these.
    """

    device: str = field(default_factory=lambda: os.environ.get("CAPMETER_DEVICE") or "auto")
    precision: str = field(default_factory=lambda: os.environ.get("CAPMETER_PRECISION") or "float32")
    tokens: int = 0
    threads: int = 0
    cache: Path | None = field(default_factory=_environment_cache)
    cache_bytes: int = 4 * GIGABYTE
    references: Path | None = field(default_factory=_environment_references)
    judging: JudgeLimits = field(default_factory=JudgeLimits)
    memory: MemoryCache = field(default_factory=lambda: shared_memory(MEMORY_BYTES), compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.cache is not None:
            object.__setattr__(self, "cache", Path(self.cache).expanduser())  # accepts text as well
        if self.references is not None:
            object.__setattr__(self, "references", Path(self.references).expanduser())
        if not _DEVICE.fullmatch(self.device):
            raise InputError(f"device: expected auto, cpu, cuda, cuda:1 or mps, but got {self.device!r}")
        if self.precision not in PRECISIONS:
            raise InputError(f"precision: expected one of {', '.join(PRECISIONS)}, but got {self.precision!r}")
        if self.tokens < 0:
            raise InputError(f"tokens per batch: expected 0 (automatic) or more, but got {self.tokens}")
        if self.threads < 0:
            raise InputError(f"threads: expected 0 (automatic) or more, but got {self.threads}")
        if self.cache_bytes < 1:
            raise InputError(f"cache_bytes: expected a positive number of bytes, but got {self.cache_bytes}")

    def disk_cache(self) -> DiskCache | None:
        """The disk cache of results of analyses; None if it is disabled."""
        from capmeter.core.disk_cache import DiskCache  # which not every run needs

        return None if self.cache is None else DiskCache(self.cache, self.cache_bytes)

    def reference_cache(self) -> DiskCache | None:
        """The disk cache of the tables of references; None if it is disabled."""
        from capmeter.core.disk_cache import DiskCache

        if self.references is None:
            return None
        if self.references == self.cache:
            return self.disk_cache()  # one folder has one limit
        return DiskCache(self.references, min(self.cache_bytes, _REFERENCE_BYTES))

    def result_cache(self) -> ResultCache:
        """The cache of results of analyses, in memory and on disk."""
        return ResultCache(self.memory, self.disk_cache())
