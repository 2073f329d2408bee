"""Freed memory is returned to the operating system."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

import pytest

from capmeter.core.memory import return_freed_memory

_MEGABYTE = 1 << 20


def resident_megabytes() -> float:
    """The resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / _MEGABYTE


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or platform.libc_ver()[0] != "glibc", reason="only glibc has malloc_trim"
)
def test_memory_freed_between_blocks_in_use_is_returned() -> None:
    blocks = [bytearray(32 * 1024) for _ in range(8000)]  # 250 MB, each too small to be returned when it is freed
    kept = blocks[::100]
    del blocks
    before = resident_megabytes()
    return_freed_memory()
    assert before - resident_megabytes() > 150
    assert len(kept) == 80
