"""The disk cache of results of analyses: vectors, parses, scene graphs, image features.

A result is keyed by what was analysed (a sentence, an image's hash) and by the analysis's identity (everything that
affects the result: model weights, layer, precision, version), so an entry can be wrong only if it is damaged. Every
entry is checksummed, and a damaged one is a miss: it is computed and written again. A damaged file is replaced by an
empty one. When the file exceeds its limit, the least recently used entries are dropped first. The cache never fails a
run: if the disk is full or the file locked, results are not cached.

The cache is one SQLite file in write-ahead mode, which any number of processes share; values are raw numbers or JSON,
and nothing is unpickled.

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
import re
import sqlite3
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from capmeter.core.errors import AssetError

_VERSION = 1
# Rows are appended, and only the small indices are written at random: three times as fast as a table ordered by key.
_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS entries (
    id INTEGER PRIMARY KEY, key INTEGER NOT NULL UNIQUE, used INTEGER NOT NULL, bytes INTEGER NOT NULL,
    checksum INTEGER NOT NULL, form BLOB NOT NULL, value BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS by_use ON entries (used, bytes);
PRAGMA user_version = {_VERSION};
COMMIT;
"""
_KEYS_PER_QUERY = 500
_OVERHEAD = 64  # approximate bytes of an entry besides its value
_EMPTY_BYTES = 1 << 16  # a file without entries is smaller than this
_REFRESH_SECONDS = 3600  # a use is not recorded again for this long, so that reads rarely write
_CONNECTION_ATTEMPTS = 6
_JSON = b"json"
_ARRAY_FORM = re.compile(rb"[<>|][biuf]\d+( \d+)*")
_TEMPORARY_ERRORS = ("locked", "disk is full", "unable to open", "interrupted")
_FAILURES = (sqlite3.Error, sqlite3.Warning, UnicodeError, OverflowError, MemoryError)


@dataclass(frozen=True)
class DiskCache:
    """Results of analyses, in one file.

    A result is an array of numbers or a JSON value (without NaN). Arrays come back read-only.

    Args:
        folder: of the file.
        limit: its maximum size in bytes, approximately.
        lock_timeout: seconds to wait for a locked file.
    """

    folder: Path
    limit: int = 4 << 30
    lock_timeout: float = 30.0

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / "analyses.sqlite"

    def get(self, analysis: str, contents: Iterable[bytes]) -> dict[bytes, Any]:
        """The cached results, by content.

        Args:
            analysis: the analysis's identity.
            contents: what was analysed: sentences as bytes, or hashes of images.
        """
        results: dict[bytes, Any] = {}
        if not self.path.exists():
            return results
        requested_contents = {}
        for content in contents:
            digest = _digest(analysis, content)
            requested_contents[_key(digest)] = digest, content
        stale_keys: list[int] = []
        damaged_keys: list[int] = []
        now = int(time.time())
        with self._transaction() as database:
            if database is None:
                return results
            columns = "key, used, checksum, form, value"
            for entry_key, last_used, checksum, form, value in _select(database, columns, list(requested_contents)):
                if entry_key not in requested_contents:
                    continue
                digest, content = requested_contents[entry_key]
                try:
                    results[content] = _decode(digest, checksum, form, value)
                except (ValueError, TypeError, RecursionError):
                    damaged_keys.append(entry_key)
                if not isinstance(last_used, int) or not now - _REFRESH_SECONDS <= last_used <= now:
                    stale_keys.append(entry_key)
            database.executemany("DELETE FROM entries WHERE key = ?", ((entry_key,) for entry_key in damaged_keys))
            database.executemany(
                "UPDATE entries SET used = ? WHERE key = ?", ((now, entry_key) for entry_key in stale_keys)
            )
        return results

    def put(self, analysis: str, results: Mapping[bytes, Any]) -> None:
        """Cache these results, by content, and drop the least recently used entries above the limit.

        Raises:
            ValueError, TypeError: a result is neither an array of numbers nor a JSON value.
            AssetError: the folder cannot be created.
        """
        now, entry_rows, total_bytes = int(time.time()), [], 0
        for content, result in results.items():
            digest = _digest(analysis, content)
            form, blob = _encode(result)
            total_bytes += len(blob) + _OVERHEAD
            if total_bytes > self.limit // 2:  # never so much at once that it would displace all older entries
                break
            entry_rows.append((_key(digest), now, len(blob), _checksum(digest, form, blob), form, blob))
        if not entry_rows:
            return
        with self._transaction() as database:
            if database is None:
                return
            database.execute("BEGIN IMMEDIATE")
            self._make_room(database, total_bytes)
            database.executemany(
                "INSERT OR REPLACE INTO entries (key, used, bytes, checksum, form, value) VALUES (?, ?, ?, ?, ?, ?)",
                entry_rows,
            )
            if sum(1 for _ in _select(database, "checksum", [row[0] for row in entry_rows])) != len(entry_rows):
                raise sqlite3.DatabaseError("its index of keys has lost entries")
            self._make_room(database, 0)

    def _make_room(self, database: sqlite3.Connection, needed_bytes: int) -> None:
        """Drop the least recently used entries until there is room for `needed_bytes`, and a tenth more."""
        while True:
            excess_bytes = _bytes_used(database) + needed_bytes - self.limit
            if excess_bytes <= 0:
                return
            excess_bytes += self.limit // 10
            dropped_ids = []
            for row_id, entry_bytes in database.execute("SELECT id, bytes FROM entries ORDER BY used, id"):
                if excess_bytes <= 0:
                    break
                excess_bytes -= entry_bytes + _OVERHEAD
                dropped_ids.append((row_id,))
            if not dropped_ids:
                if _bytes_used(database) > _EMPTY_BYTES:
                    raise sqlite3.DatabaseError("its index of uses has lost entries")
                return
            database.executemany("DELETE FROM entries WHERE id = ?", dropped_ids)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection | None]:
        """A transaction on the file; None if unavailable. A damaged file is replaced by an empty one."""
        database = self._connect()
        if database is None:
            yield None
            return
        try:
            with closing(database), database:
                yield database
        except _FAILURES as error:
            self._discard(error)

    def _connect(self) -> sqlite3.Connection | None:
        """A connection to the file, created if absent, replaced if damaged; None if unavailable."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise AssetError(
                f"disk cache: cannot create the folder {self.folder} ({error.strerror}); choose another folder"
            ) from error
        for attempt in range(_CONNECTION_ATTEMPTS):
            with suppress(OSError):  # SQLite's other files get this one's permissions
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            database = None
            try:
                database = sqlite3.connect(self.path, timeout=self.lock_timeout)
                _prepare(database)
                return database
            except _FAILURES as error:
                if database is not None:
                    with suppress(sqlite3.Error):
                        database.close()
                if "locked" in str(error):  # two processes create the file at once; SQLite does not wait here itself
                    time.sleep(0.02 * 2**attempt)
                elif not self._discard(error):
                    return None
        return None

    def _discard(self, error: BaseException) -> bool:
        """Remove a damaged file; one that is only locked or read-only, or on a full disk, stays (False)."""
        error_text = str(error)
        if isinstance(error, sqlite3.OperationalError | MemoryError) and any(
            word in error_text for word in _TEMPORARY_ERRORS
        ):
            return False
        if "readonly" in error_text and not os.access(self.path, os.W_OK):
            return False
        for suffix in ("", "-wal", "-shm"):
            with suppress(OSError):
                Path(f"{self.path}{suffix}").unlink(missing_ok=True)
        return True


def _prepare(database: sqlite3.Connection) -> None:
    database.text_factory = bytes  # a damaged text is a miss, not a UnicodeDecodeError
    table_count = database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if database.execute("SELECT count(*) FROM sqlite_master WHERE type NOT IN ('table', 'index')").fetchone()[0]:
        raise sqlite3.DatabaseError("views or triggers")  # which could be without end
    version = database.execute("PRAGMA user_version").fetchone()[0]  # read second: it is set together with the tables
    if version != _VERSION:
        if version or table_count:
            raise sqlite3.DatabaseError("another version")
        database.execute("PRAGMA journal_mode=WAL")
        database.executescript(_SCHEMA)
    # flushing makes small puts ten times slower; entries damaged by a power failure are detected and recomputed
    database.execute("PRAGMA synchronous=OFF")


def _select(database: sqlite3.Connection, columns: str, keys: Sequence[int]) -> Iterator[Any]:
    """These columns of the entries with these keys."""
    for start in range(0, len(keys), _KEYS_PER_QUERY):
        query_keys = keys[start : start + _KEYS_PER_QUERY]
        marks = ",".join("?" * len(query_keys))
        yield from database.execute(f"SELECT {columns} FROM entries WHERE key IN ({marks})", query_keys)


def _digest(analysis: str, content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16, key=hashlib.blake2b(analysis.encode()).digest()).digest()


def _key(digest: bytes) -> int:
    return int.from_bytes(digest[:8], "little", signed=True)


def _checksum(digest: bytes, form: bytes, blob: bytes) -> int:
    """Covers the whole digest too: a value stored under another key counts as damage."""
    return zlib.crc32(blob, zlib.crc32(digest + form + b"\0"))


def _encode(value: Any) -> tuple[bytes, bytes]:
    if not isinstance(value, np.ndarray):
        return _JSON, json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")
    form = " ".join((value.dtype.str, *map(str, value.shape))).encode("ascii")
    if not _ARRAY_FORM.fullmatch(form):
        raise TypeError(f"expected an array of numbers, but got {value.dtype}")
    return form, value.tobytes()


def as_cached(value: Any) -> Any:
    """The value as a disk cache returns it: lists for tuples, dict keys as text, arrays read-only."""
    return _value(*_encode(value))


def _decode(digest: bytes, checksum: Any, form: Any, blob: Any) -> Any:
    if not isinstance(form, bytes) or not isinstance(blob, bytes) or _checksum(digest, form, blob) != checksum:
        raise ValueError("damaged")
    return _value(form, blob)


def _value(form: bytes, blob: bytes) -> Any:
    if form == _JSON:
        return json.loads(blob)
    if not _ARRAY_FORM.fullmatch(form):
        raise ValueError("damaged")
    dtype, *shape = form.decode("ascii").split(" ")
    return np.frombuffer(blob, np.dtype(dtype)).reshape(tuple(map(int, shape)))


def _bytes_used(database: sqlite3.Connection) -> int:
    """The file's size without free pages."""
    page_count, free_pages, page_size = (
        database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return int((page_count - free_pages) * page_size)
