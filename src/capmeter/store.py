"""One on-disk store for the results of analyses: vectors, parses, scene graphs, image features.

A value is keyed by what it was computed from (a sentence, an image's hash) and by the analysis's identity (everything
that affects the value: model weights, layer, precision, version), so an entry can be wrong only if it is damaged. Every
entry is checksummed, and a damaged one is a miss: it is computed and written again. A damaged file is replaced by an
empty one. When the file exceeds its limit, the least recently used entries are dropped first. A store never fails a
run: if the disk is full or the file locked, values are simply not kept.

The store is one SQLite file in write-ahead mode, which any number of processes share; values are raw numbers or JSON,
and nothing is unpickled.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     store = Store(Path(folder))
...     store.put("word-count/1", {b"a dog runs": 3, b"a dog": 2})
...     store.get("word-count/1", [b"a dog runs", b"a cat"]), store.get("word-count/2", [b"a dog runs"])
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

from capmeter.errors import AssetError
from capmeter.settings import Settings

GIGABYTE = 1 << 30
_REFERENCES = 1 << 29
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
_ASKED_AT_ONCE = 500
_OVERHEAD = 64  # approximate bytes of an entry besides its value
_EMPTY = 1 << 16  # a file without entries is smaller than this
_FRESH = 3600  # seconds during which a use is not recorded again, so that reads rarely write
_WAIT = 30.0  # seconds to wait for a locked file
_TRIES = 6
_JSON = b"json"
_FORM = re.compile(rb"[<>|][biuf]\d+( \d+)*")
_PASSING = ("locked", "disk is full", "unable to open", "interrupted")
_FAILURES = (sqlite3.Error, sqlite3.Warning, UnicodeError, OverflowError, MemoryError)


@dataclass(frozen=True)
class Store:
    """Results of analyses, in one file in `folder` of at most about `limit` bytes.

    A value is an array of numbers or a JSON value (without NaN). Arrays come back read-only.
    """

    folder: Path
    limit: int = 4 * GIGABYTE

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / "analyses.sqlite"

    def get(self, analysis: str, contents: Iterable[bytes]) -> dict[bytes, Any]:
        """The values found, by content.

        Args:
            analysis: the analysis's identity.
            contents: what was analysed: sentences as bytes, or hashes of images.
        """
        wanted = {}
        for content in contents:
            digest = _digest(analysis, content)
            wanted[_key(digest)] = digest, content
        found: dict[bytes, Any] = {}
        if not self.path.exists():
            return found
        stale: list[int] = []
        damaged: list[int] = []
        now = int(time.time())
        with self._open() as database:
            if database is None:
                return found
            keys = list(wanted)
            for start in range(0, len(keys), _ASKED_AT_ONCE):
                asked = keys[start : start + _ASKED_AT_ONCE]
                marks = ",".join("?" * len(asked))
                rows = database.execute(
                    f"SELECT key, used, checksum, form, value FROM entries WHERE key IN ({marks})", asked
                )
                for key, used, checksum, form, value in rows:
                    if key not in wanted:
                        continue
                    digest, content = wanted[key]
                    try:
                        found[content] = _decoded(digest, checksum, form, value)
                    except (ValueError, TypeError, RecursionError):
                        damaged.append(key)
                    if not isinstance(used, int) or not now - _FRESH <= used <= now:
                        stale.append(key)
            database.executemany("DELETE FROM entries WHERE key = ?", ((key,) for key in damaged))
            database.executemany("UPDATE entries SET used = ? WHERE key = ?", ((now, key) for key in stale))
        return found

    def put(self, analysis: str, entries: Mapping[bytes, Any]) -> None:
        """Stores these values, by content, and drops the least recently used entries above the limit.

        Raises:
            ValueError, TypeError: a value is neither an array of numbers nor a JSON value.
            AssetError: the folder cannot be created.
        """
        now, rows, size = int(time.time()), [], 0
        for content, value in entries.items():
            digest = _digest(analysis, content)
            form, blob = _encoded(value)
            size += len(blob) + _OVERHEAD
            if size > self.limit // 2:  # never so much at once that it would displace all older entries
                break
            rows.append((_key(digest), now, len(blob), _checksum(digest, form, blob), form, blob))
        if not rows:
            return
        with self._open() as database:
            if database is None:
                return
            database.execute("BEGIN IMMEDIATE")
            self._make_room(database, size)
            database.executemany(
                "INSERT OR REPLACE INTO entries (key, used, bytes, checksum, form, value) VALUES (?, ?, ?, ?, ?, ?)",
                rows,
            )
            _check(database, [row[0] for row in rows])
            self._make_room(database, 0)

    def _make_room(self, database: sqlite3.Connection, size: int) -> None:
        """Drops the least recently used entries until there is room for `size` bytes, and a tenth more."""
        while True:
            excess = _bytes_used(database) + size - self.limit
            if excess <= 0:
                return
            excess += self.limit // 10
            dropped = []
            for id, bytes_ in database.execute("SELECT id, bytes FROM entries ORDER BY used, id"):
                if excess <= 0:
                    break
                excess -= bytes_ + _OVERHEAD
                dropped.append((id,))
            if not dropped:
                if _bytes_used(database) > _EMPTY:
                    raise sqlite3.DatabaseError("its index of uses has lost entries")
                return
            database.executemany("DELETE FROM entries WHERE id = ?", dropped)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection | None]:
        """A transaction on the file; None if unavailable. A damaged file is replaced by an empty one."""
        database = self._connected()
        if database is None:
            yield None
            return
        try:
            with closing(database), database:
                yield database
        except _FAILURES as error:
            self._discard(error)

    def _connected(self) -> sqlite3.Connection | None:
        """A connection to the file, created if absent, replaced if damaged; None if unavailable."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise AssetError(
                f"store of analyses: cannot create the folder {self.folder} ({error.strerror}); choose another folder"
            ) from error
        for attempt in range(_TRIES):
            with suppress(OSError):  # SQLite's other files get this one's permissions
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            database = None
            try:
                database = sqlite3.connect(self.path, timeout=_WAIT)
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
        """Removes a damaged file; one that is only locked or read-only, or on a full disk, stays (False)."""
        text = str(error)
        if isinstance(error, sqlite3.OperationalError | MemoryError) and any(word in text for word in _PASSING):
            return False
        if "readonly" in text and not os.access(self.path, os.W_OK):
            return False
        for suffix in ("", "-wal", "-shm"):
            with suppress(OSError):
                Path(f"{self.path}{suffix}").unlink(missing_ok=True)
        return True


def store_of(settings: Settings) -> Store | None:
    """The store that the settings of a run name; None where they name none."""
    return None if settings.cache is None else Store(settings.cache, settings.cache_bytes)


def reference_store(settings: Settings) -> Store | None:
    """The store of the tables of references; None where the settings of a run name none."""
    if settings.references is None:
        return None
    if settings.references == settings.cache:
        return store_of(settings)  # one file has one limit
    return Store(settings.references, min(settings.cache_bytes, _REFERENCES))


def _prepare(database: sqlite3.Connection) -> None:
    database.text_factory = bytes  # a damaged text is a miss, not a UnicodeDecodeError
    tables = database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    version = database.execute("PRAGMA user_version").fetchone()[0]  # read second: it is set together with the tables
    if version != _VERSION:
        if version or tables:
            raise sqlite3.DatabaseError("another version")
        database.execute("PRAGMA journal_mode=WAL")
        database.executescript(_SCHEMA)
    # flushing makes small puts ten times slower; entries damaged by a power failure are detected and recomputed
    database.execute("PRAGMA synchronous=OFF")


def _check(database: sqlite3.Connection, keys: Sequence[int]) -> None:
    """Raises DatabaseError if rows just written are not found: the file's B-trees are damaged."""
    for start in range(0, len(keys), _ASKED_AT_ONCE):
        asked = keys[start : start + _ASKED_AT_ONCE]
        marks = ",".join("?" * len(asked))
        if database.execute(f"SELECT count(checksum) FROM entries WHERE key IN ({marks})", asked).fetchone()[0] != len(
            asked
        ):
            raise sqlite3.DatabaseError("its index of keys has lost entries")


def _digest(analysis: str, content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16, key=hashlib.blake2b(analysis.encode()).digest()).digest()


def _key(digest: bytes) -> int:
    return int.from_bytes(digest[:8], "little", signed=True)


def _checksum(digest: bytes, form: bytes, blob: bytes) -> int:
    """Covers the whole digest too: a value stored under another key counts as damage."""
    return zlib.crc32(blob, zlib.crc32(digest + form + b"\0"))


def _encoded(value: Any) -> tuple[bytes, bytes]:
    if not isinstance(value, np.ndarray):
        return _JSON, json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")
    form = " ".join((value.dtype.str, *map(str, value.shape))).encode("ascii")
    if not _FORM.fullmatch(form):
        raise TypeError(f"expected an array of numbers, but got {value.dtype}")
    return form, value.tobytes()


def normalised(value: Any) -> Any:
    """The value as a store returns it: lists for tuples, dict keys as text, arrays read-only."""
    form, blob = _encoded(value)
    return _value(form, blob)


def _decoded(digest: bytes, checksum: Any, form: Any, blob: Any) -> Any:
    if not isinstance(form, bytes) or not isinstance(blob, bytes) or _checksum(digest, form, blob) != checksum:
        raise ValueError("damaged")
    return _value(form, blob)


def _value(form: bytes, blob: bytes) -> Any:
    if form == _JSON:
        return json.loads(blob)
    if not _FORM.fullmatch(form):
        raise ValueError("damaged")
    dtype, *shape = form.decode("ascii").split(" ")
    return np.frombuffer(blob, np.dtype(dtype)).reshape(tuple(map(int, shape)))


def _bytes_used(database: sqlite3.Connection) -> int:
    """The file's size without free pages."""
    pages, free, size = (
        database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)
