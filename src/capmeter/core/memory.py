"""Memory of the process.

glibc keeps memory that was freed between blocks still in use, so that a process whose arrays differ in size from batch
to batch grows although nothing is kept (by 1 MB for each document of 200 words that `capmeter` scores).
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable


def return_freed_memory() -> None:
    """Returns freed memory to the operating system, where the C library is glibc; elsewhere does nothing."""
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@functools.cache
def _malloc_trim() -> Callable[[int], int] | None:
    if not sys.platform.startswith("linux"):
        return None
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):  # another C library
        return None
    return trim
