"""Atomic file writes: to a temporary file beside the target, flushed to disk, renamed into place on success.

A run that is killed leaves its temporary file behind; the next run that writes the same target removes it. A file that
another process is still writing is locked and is left alone.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     target = Path(folder) / "scores.txt"
...     with atomic_file(target) as file:
...         _ = file.write(b"0.5")
...     [each.name for each in Path(folder).iterdir()], target.read_text()
(['scores.txt'], '0.5')
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_TRIES = 20
_NAME_LENGTH = 80  # file systems allow names of 255 bytes


@contextmanager
def atomic_file(target: Path) -> Iterator[BinaryIO]:
    """A new file that is renamed to `target` when the block succeeds; otherwise an existing `target` is untouched.

    The permissions of an existing `target` are kept.

    Raises:
        OSError: the folder does not exist or cannot be written to, or the disk is full.
    """
    _remove_abandoned(target)
    temporary_path, file = _begin(target)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if target.exists():
                temporary_path.chmod(stat.S_IMODE(target.stat().st_mode))
            if sys.platform != "win32":  # before closing releases the lock; Windows renames closed files only
                temporary_path.replace(target)
        if sys.platform == "win32":
            temporary_path.replace(target)
    finally:
        with suppress(OSError):
            temporary_path.unlink()
    _flush_folder(target.parent)


def _begin(target: Path) -> tuple[Path, BinaryIO]:
    """A new, locked temporary file for the target."""
    import secrets  # which only writing needs

    for _ in range(_TRIES):
        temporary_path = target.with_name(f"{_prefix(target)}{secrets.token_hex(6)}.part")
        file = temporary_path.open("xb")
        with suppress(OSError):  # a file system without locks: no other process gets one either
            _lock(file, wait=True)
        with suppress(OSError):
            if os.path.samestat(temporary_path.stat(), os.fstat(file.fileno())):
                return temporary_path, file
        file.close()  # another process took it for abandoned before it was locked
    raise OSError(f"cannot create a temporary file in {target.parent}")


def _remove_abandoned(target: Path) -> None:
    name_pattern = re.compile(re.escape(_prefix(target)) + r"[0-9a-f]{12}\.part")
    with suppress(OSError), os.scandir(target.parent) as entries:
        # links and pipes of such a name are not ours: opening them could touch another file, or wait for ever
        abandoned_entries = [
            entry for entry in entries if name_pattern.fullmatch(entry.name) and entry.is_file(follow_symlinks=False)
        ]
        for path in [Path(entry.path) for entry in abandoned_entries]:
            with suppress(OSError), path.open("r+b") as file:
                _lock(file, wait=False)
                if sys.platform != "win32":
                    path.unlink()
            if sys.platform == "win32":
                with suppress(OSError):  # raised for a file that another process has open
                    path.unlink()


def _prefix(target: Path) -> str:
    return f".{target.name[:_NAME_LENGTH]}."


def _lock(file: BinaryIO, wait: bool) -> None:
    if sys.platform != "win32":
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def _flush_folder(folder: Path) -> None:
    """Makes the rename itself survive a power failure, where the system supports it."""
    if sys.platform != "win32":
        with suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
