"""What one pass over a file found, kept for the next: in memory if small, else in an unnamed temporary file.

The file belongs to this process and vanishes with it; nothing written by another process is read back.

>>> spool = Spool()
>>> for value in ("a", ["b"]):
...     spool.write(value)
>>> list(spool.read()), list(spool.read())
(['a', ['b']], ['a', ['b']])
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterator
from typing import Any

from capmeter.errors import InputError

_IN_MEMORY = 1 << 19


class Spool:
    """Values written one after the other, and read in that order as often as needed."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY, prefix="capmeter-")  # noqa: SIM115
        self._ends = [0]

    def __len__(self) -> int:
        return len(self._ends) - 1

    def write(self, value: Any) -> None:
        """Adds a value."""
        self._file.seek(self._ends[-1])
        try:
            pickle.dump(value, self._file, pickle.HIGHEST_PROTOCOL)
        except OSError as error:
            raise InputError(
                f"no space for the captions of the first pass in {tempfile.gettempdir()} ({error.strerror or error}); "
                "set TMPDIR to a folder with more space, or read the file whole (--no-stream)"
            ) from None
        self._ends.append(self._file.tell())

    def read(self) -> Iterator[Any]:
        """The values, one in memory at a time."""
        for start in self._ends[:-1]:
            self._file.seek(start)
            yield pickle.load(self._file)
