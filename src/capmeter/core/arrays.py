"""Arrays in files: those that capmeter builds for itself, and .npz files that a user names.

Its own files are safetensors, memory-mapped when they are read. A file that cannot be read, or is not as long as its
header says, is treated as absent, so that its owner makes it again. Nothing is unpickled.
"""

from __future__ import annotations

import json
import lzma
import mmap
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.core.output_files import atomic_file

Arrays = dict[str, npt.NDArray[Any]]
_FACTS = "__metadata__"
_KINDS = {"f": "F", "i": "I", "u": "U"}
# everything that numpy and zipfile are known to raise, or may raise, on damaged files
ZIP_ERRORS = (
    *(OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, EOFError, MemoryError),
    *(RuntimeError, SyntaxError, tokenize.TokenError, struct.error, zlib.error, lzma.LZMAError, zipfile.BadZipFile),
)


def write_arrays(path: Path, arrays: Mapping[str, npt.NDArray[Any]], facts: Any = None) -> None:
    """Writes a file atomically: named arrays of numbers, and facts (a JSON value) about them.

    Args:
        path: the file; its folder is created.
        arrays: by name, of numbers or booleans.
        facts: a JSON value.

    Raises:
        OSError: the folder cannot be created or written to.
    """
    content = pack_arrays(arrays, facts)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as file:
        file.writelines(content)


def pack_arrays(arrays: Mapping[str, npt.NDArray[Any]], facts: Any = None) -> list[bytes | memoryview]:
    """The content of a file of named arrays of numbers, and facts (a JSON value) about them, in pieces to write."""
    header: dict[str, Any] = {_FACTS: {"facts": json.dumps(facts)}}
    body: list[memoryview] = []
    offset = 0
    for name, array in sorted(arrays.items(), key=lambda item: -item[1].itemsize):  # so that each is aligned
        kind = "BOOL" if array.dtype.kind == "b" else f"{_KINDS[array.dtype.kind]}{8 * array.itemsize}"
        header[name] = {"dtype": kind, "shape": array.shape, "data_offsets": [offset, offset + array.nbytes]}
        body.append(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(-1).data.cast("B"))
        offset += array.nbytes
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    return [len(head).to_bytes(8, "little") + head, *body]


def read_arrays(path: Path) -> tuple[Arrays, Any] | None:
    """The arrays (memory-mapped, read-only) and facts in a file; None if it is absent or damaged."""
    try:
        with path.open("rb") as file:  # safetensors itself copies arrays, of which most runs read a small part
            content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        body_start = 8 + int.from_bytes(content[:8], "little")
        header = json.loads(bytes(content[8:body_start]))
        facts = json.loads(header.pop(_FACTS)["facts"])
        arrays = {name: _array(content[body_start:], **entry) for name, entry in header.items()}
        is_whole = len(content) == body_start + max((entry["data_offsets"][1] for entry in header.values()), default=0)
        return (arrays, facts) if is_whole else None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError):
        return None


def _array(body: memoryview, dtype: str, shape: list[int], data_offsets: list[int]) -> npt.NDArray[Any]:
    kind = np.dtype(bool) if dtype == "BOOL" else np.dtype(f"<{dtype[0].lower()}{int(dtype[1:]) // 8}")
    return np.frombuffer(body[slice(*data_offsets)], kind).reshape(shape)


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
