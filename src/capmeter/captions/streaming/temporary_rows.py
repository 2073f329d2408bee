"""Objects that one pass over a file leaves for the next: in memory if small, else in an unnamed temporary file.

The file belongs to this process and vanishes with it; nothing that another process wrote is read back.

>>> rows = TemporaryRows()
>>> for value in ("a", ["b"]):
...     rows.write(value)
>>> list(rows.read()), list(rows.read())
(['a', ['b']], ['a', ['b']])
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterator
from typing import Any

from capmeter.core.errors import InputError

_IN_MEMORY = 1 << 19


class TemporaryRows:
    """Objects written one after the other, and read in that order as often as needed."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY, prefix="capmeter-")  # noqa: SIM115
        self._ends = [0]

    def write(self, value: Any) -> None:
        """Appends an object."""
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
        """The objects, one in memory at a time."""
        for object_start in self._ends[:-1]:
            self._file.seek(object_start)
            yield pickle.load(self._file)
