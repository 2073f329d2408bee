"""The disk cache of results of analyses: vectors, parses, scene graphs, image features, tables of references.

A result is named by what was analysed (a sentence, an image's hash) and by the analysis's identity (everything that
affects the result: model weights, layer, precision, version). Results that are computed together are one file in the
folder of their analysis, named by their hash; it holds raw numbers or JSON, and nothing is unpickled. A file that
cannot be read is deleted, and its results are computed and written again. Above the limit, the files that were not used
for the longest time are deleted. Any number of processes share a folder. The cache never fails a run: if the disk is
full, results are not cached.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     cache = DiskCache(Path(folder))
...     cache.put("word-count/1", {b"a dog runs": 3, b"a dog": 2})
...     cache.get("word-count/1", [b"a dog runs", b"a cat"]), cache.get("word-count/2", [b"a dog runs"])
({b'a dog runs': 3}, {})
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from capmeter.core.arrays import Arrays, pack_arrays, read_arrays
from capmeter.core.errors import AssetError

Keys = npt.NDArray[np.uint64]
_SUFFIX = ".safetensors"
_REFRESH_SECONDS = 3600  # a use is not recorded again for this long, so that reads rarely write
_DAMAGE = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
_unchecked: dict[Path, int] = {}  # bytes that this process wrote to a folder since it compared its size with the limit


@dataclass(frozen=True)
class DiskCache:
    """Results of analyses, in files of a folder.

    Args:
        folder: of the folder `analyses`, which has the files.
        limit: the maximum size of the files in bytes, approximately.
    """

    folder: Path
    limit: int = 4 << 30

    @property
    def path(self) -> Path:
        """The folder of all files."""
        return self.folder / "analyses"

    def get(self, analysis: str, contents: Iterable[bytes]) -> dict[bytes, Any]:
        """The cached results, by content: arrays of numbers, or JSON values.

        Args:
            analysis: the analysis's identity.
            contents: what was analysed: sentences as bytes, or hashes of images.
        """
        distinct_contents = np.array(list(dict.fromkeys(contents)), object)
        index, keys, results = _index_of(self.path / _digest(analysis)), _keys(distinct_contents), dict[bytes, Any]()
        positions = np.searchsorted(index.keys[:-1], keys)
        is_stored = index.keys[positions] == keys if len(index.keys) else np.zeros(len(keys), bool)
        places = index.places[positions[is_stored]] if is_stored.any() else index.places[:0]
        paths = list(index.keys_by_file)
        for number in np.unique(places >> 32).tolist():
            in_file = places >> 32 == number
            try:
                values = _decode(*self._read(paths[number]), places[in_file] & 0xFFFFFFFF)
                results |= zip(distinct_contents[is_stored][in_file].tolist(), values, strict=True)
            except _DAMAGE:
                _delete(paths[number])
        return results

    def put(self, analysis: str, results: Mapping[bytes, Any]) -> None:
        """Caches these results of one kind, by content: arrays of numbers, or JSON values without NaN.

        Raises:
            ValueError, TypeError: a result is neither, or they differ in kind.
            AssetError: the folder cannot be created.
        """
        if results:
            keys = _keys(results)
            arrays, kind = _encode(list(results.values()))
            path = self.path / _digest(analysis) / (_digest(keys.tobytes()) + _SUFFIX)
            self._write(path, {"keys": keys, **arrays}, kind)
            # the clock of file systems is too coarse to tell two changes apart
            _indices[path.parent] = _indices.get(path.parent, _EMPTY)._replace(changed=-1)

    def get_table(self, table_name: str) -> tuple[Arrays, Any] | None:
        """The arrays and facts of the table of this name; None if it is not cached."""
        path = self.path / (_digest(table_name) + _SUFFIX)
        try:
            return self._read(path)
        except _DAMAGE:
            _delete(path)
            return None

    def put_table(self, table_name: str, table: tuple[Arrays, Any]) -> None:
        """Caches arrays and facts (a JSON value) under a name that says everything that affects them; see `put`."""
        self._write(self.path / (_digest(table_name) + _SUFFIX), *table)

    def _read(self, path: Path) -> tuple[Arrays, Any]:
        """The content of a file, which counts as used now; a `ValueError` if it is absent or damaged."""
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _REFRESH_SECONDS:
                os.utime(path)
        if (stored := read_arrays(path)) is None:
            raise ValueError(f"{path} cannot be read")
        return stored

    def _write(self, path: Path, arrays: Arrays, facts: Any = None) -> None:
        """Writes a file whole or not at all. It is not flushed to disk: nothing is lost with it but time."""
        content = pack_arrays(arrays, facts)
        content_bytes = sum(map(len, content))
        if content_bytes > self.limit // 2:  # never so much at once that it would displace all older files
            return
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise AssetError(
                f"disk cache: cannot create the folder {self.folder} ({error.strerror}); choose another folder"
            ) from error
        temporary_path = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
        with suppress(OSError):  # the disk is full, or the folder read-only
            try:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                with temporary_path.open("wb") as file:
                    file.writelines(content)
                temporary_path.replace(path)
            finally:
                _delete(temporary_path)
            self._make_room(content_bytes)

    def _make_room(self, new_bytes: int) -> None:
        """Deletes the least recently used files above the limit; looks after every sixteenth of it that is written."""
        _unchecked[self.path] = _unchecked.get(self.path, self.limit) + new_bytes
        if _unchecked[self.path] * 16 < self.limit:
            return
        _unchecked[self.path] = 0
        files = sorted((path.stat().st_mtime, path.stat().st_size, path) for path in self.path.rglob("*.*"))
        excess_bytes = sum(size for _, size, _ in files) - self.limit
        room = self.limit // 10 if excess_bytes > 0 else 0
        for _, size, path in files:
            if excess_bytes + room > 0:
                _delete(path)
                excess_bytes -= size


class _Index(NamedTuple):
    """Which file of a folder has which result.

    Two results of one analysis with the same 64-bit key are taken for one; of ten million, that is one in 400,000.
    """

    changed: int  # when the folder was; -1: to be looked at again
    keys_by_file: dict[Path, Keys]
    keys: Keys  # of all files, sorted
    places: npt.NDArray[np.int64]  # of each key: number of the file << 32 | row in the file


_EMPTY = _Index(-1, {}, np.zeros(0, np.uint64), np.zeros(0, np.int64))
_indices: dict[Path, _Index] = {}


def _index_of(folder: Path) -> _Index:
    """The index of a folder, read again where files were added to it or deleted."""
    known = _indices.get(folder, _EMPTY)
    try:
        changed = folder.stat().st_mtime_ns
        if changed == known.changed:
            return known
        paths = sorted(path for path in folder.iterdir() if path.suffix == _SUFFIX)
    except OSError:  # the folder is absent or cannot be read
        return _EMPTY
    by_file = {path: known.keys_by_file[path] if path in known.keys_by_file else _stored_keys(path) for path in paths}
    keys = np.concatenate([_EMPTY.keys, *by_file.values()])
    rows = (number << 32 | np.arange(len(part)) for number, part in enumerate(by_file.values()))
    order = np.argsort(keys, kind="stable")
    _indices[folder] = _Index(changed, by_file, keys[order], np.concatenate([_EMPTY.places, *rows])[order])
    return _indices[folder]


def _stored_keys(path: Path) -> Keys:
    """The keys of a file's results, in the order of its rows; a file that cannot be read is deleted."""
    stored = read_arrays(path)
    if stored is None or "keys" not in stored[0]:
        _delete(path)
        return np.zeros(0, np.uint64)
    return stored[0]["keys"].astype(np.uint64)


def _delete(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def _digest(name: str | bytes) -> str:
    return hashlib.blake2b(name.encode() if isinstance(name, str) else name, digest_size=16).hexdigest()


def _keys(contents: Iterable[bytes]) -> Keys:
    digests = [hashlib.blake2b(content, digest_size=8).digest() for content in contents]
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)


def _encode(values: list[Any]) -> tuple[Arrays, str]:
    """Values of one kind as arrays, and the kind: JSON, or the type of the arrays' numbers."""
    blobs: Sequence[bytes | memoryview]
    if isinstance(values[0], np.ndarray):
        kinds, shapes = {value.dtype.str for value in values}, np.array([value.shape for value in values], np.int64)
        blobs = [np.ascontiguousarray(value).reshape(-1).view(np.uint8).data for value in values]
    else:
        kinds, shapes = {"json"}, np.zeros((len(values), 0), np.int64)
        blobs = [json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii") for value in values]
    if len(kinds) > 1 or (values[0] is not None and getattr(values[0], "dtype", shapes.dtype).kind not in "biuf"):
        raise TypeError(f"expected arrays of numbers, or JSON values, but got {', '.join(sorted(kinds))}")
    ends = np.cumsum(list(map(len, blobs)), dtype=np.int64)
    return {"shapes": shapes, "ends": ends, "values": np.frombuffer(b"".join(blobs), np.uint8)}, kinds.pop()


def _decode(arrays: Arrays, kind: str, rows: npt.NDArray[np.int64]) -> list[Any]:
    """The results in these rows of a file; raises one of `_DAMAGE` if they are damaged."""
    ends, stored_values = arrays["ends"], arrays["values"]
    starts = np.where(rows > 0, ends[rows - 1], 0)
    blobs = [stored_values[a:b].tobytes() for a, b in zip(starts.tolist(), ends[rows].tolist(), strict=True)]
    if kind == "json":
        return [json.loads(blob) for blob in blobs]
    shapes, dtype = arrays["shapes"][rows].tolist(), np.dtype(kind)
    return [np.frombuffer(blob, dtype).reshape(shape) for blob, shape in zip(blobs, shapes, strict=True)]
