"""Arrays in files: index files that capmeter builds for itself, and .npz files that a user names.

An index file is checksummed as a whole and memory-mapped. A damaged file is treated as absent, so that its owner
rebuilds it. Nothing is unpickled.

    magic line | CRC-32 of the rest | length of the header | header (JSON) | arrays, each aligned to 64 bytes

The checksum is computed once for each state of a file: its size and times are noted beside it (`NAME.checked`), and a
file with these is not read through again.
"""

from __future__ import annotations

import json
import lzma
import mmap
import os
import struct
import time
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.core.atomic import atomic_file

Arrays = dict[str, npt.NDArray[Any]]
_MAGIC = b"capmeter arrays 1\n"
_LENGTHS = struct.Struct("<II")  # checksum, length of the header
_ALIGNED = 64
_SETTLED = 2_000_000_000  # nanoseconds after which a change of a file surely changes its times
# everything that numpy and zipfile are known to raise, or may raise, on damaged files
ZIP_ERRORS = (
    *(OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, EOFError, MemoryError),
    *(RuntimeError, SyntaxError, tokenize.TokenError, struct.error, zlib.error, lzma.LZMAError, zipfile.BadZipFile),
)


def write_arrays(path: Path, arrays: Mapping[str, npt.NDArray[Any]], facts: Mapping[str, Any] | None = None) -> None:
    """Writes an index file atomically: named arrays of numbers, and facts (JSON values) about them.

    Raises:
        OSError: the folder cannot be created or written to.
    """
    array_entries, body, byte_offset = {}, [], 0
    for array_name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise TypeError(f"{array_name}: expected an array of numbers, but got {array.dtype}")
        array_bytes = array.tobytes()
        array_entries[array_name] = {"dtype": array.dtype.str, "shape": array.shape, "at": byte_offset}
        body.append(array_bytes + bytes(-len(array_bytes) % _ALIGNED))
        byte_offset += len(body[-1])
    head = json.dumps({"arrays": array_entries, "facts": dict(facts or {})}).encode()
    head += b" " * (-(len(_MAGIC) + _LENGTHS.size + len(head)) % _ALIGNED)
    checksum = zlib.crc32(struct.pack("<I", len(head)))
    for piece in (head, *body):
        checksum = zlib.crc32(piece, checksum)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as file:
        file.write(_MAGIC + _LENGTHS.pack(checksum, len(head)) + head)
        file.writelines(body)


def read_arrays(path: Path) -> tuple[Arrays, dict[str, Any]] | None:
    """The arrays (memory-mapped, read-only) and facts in an index file; None if it is absent or damaged."""
    try:
        with path.open("rb") as file:
            state = os.fstat(file.fileno())
            file_view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError):
        return None
    header_start = len(_MAGIC) + _LENGTHS.size
    if len(file_view) < header_start or file_view[: len(_MAGIC)] != _MAGIC:
        return None
    checksum, header_length = _LENGTHS.unpack_from(file_view, len(_MAGIC))
    if not _is_whole(path, file_view, checksum, state):
        return None
    try:
        head = json.loads(bytes(file_view[header_start : header_start + header_length]))
        body = file_view[header_start + header_length :]
        arrays = {array_name: _array(body, array_entry) for array_name, array_entry in head["arrays"].items()}
        return arrays, dict(head["facts"])
    except (ValueError, LookupError, TypeError, AttributeError):
        return None


def _is_whole(path: Path, file_view: memoryview, checksum: int, state: os.stat_result) -> bool:
    """Whether the file's content has its checksum, or had it when the file was last in this state."""
    note_path = path.with_name(f"{path.name}.checked")
    note_content = (
        f"{checksum} {state.st_dev} {state.st_ino} {state.st_size} {state.st_mtime_ns} {state.st_ctime_ns}".encode()
    )
    with suppress(OSError):
        if note_path.read_bytes() == note_content:
            return True
    if zlib.crc32(file_view[len(_MAGIC) + 4 :]) != checksum:
        return False
    if time.time_ns() - max(state.st_mtime_ns, state.st_ctime_ns) > _SETTLED:
        with suppress(OSError), atomic_file(note_path) as file:
            file.write(note_content)
    return True


def _array(body: memoryview, array_entry: Mapping[str, Any]) -> npt.NDArray[Any]:
    shape = tuple(map(int, array_entry["shape"]))
    array: npt.NDArray[Any] = np.frombuffer(
        body, np.dtype(array_entry["dtype"]), int(np.prod(shape)), array_entry["at"]
    )
    return array.reshape(shape)


def read_npz(path: str | Path, *names: str) -> list[npt.NDArray[Any]]:
    """The named arrays of an .npz file.

    Raises:
        ValueError: with the reason: no such file, not an .npz file, damaged, or an array is missing.
    """
    try:
        with Path(path).open("rb") as file:
            if file.read(2) != b"PK":
                raise ValueError("it is not an .npz file")
        with np.load(path, allow_pickle=False) as saved_arrays:
            missing_names = [array_name for array_name in names if array_name not in saved_arrays]
            if missing_names:
                raise ValueError(f"it has no array named {missing_names[0]!r}")
            return [np.asarray(saved_arrays[array_name]) for array_name in names]
    except FileNotFoundError:
        raise ValueError("there is no such file") from None
    except ZIP_ERRORS as error:
        raise ValueError(str(error) or type(error).__name__) from error
