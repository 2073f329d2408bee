"""Hidden states kept in memory (the latest) and, if asked, on disk: bounded, and never trusted blindly.

On disk they lie in one SQLite file in write-ahead mode, which parallel runs share. A key names the weights, layer,
precision and exact word pieces, so an entry can be wrong only by damage: every entry carries a checksum, a damaged one
is dropped and encoded anew, and a damaged file is replaced by an empty one. When the entries outgrow the limit the
longest unused go first. A cache never fails a run: where the disk is full or locked the vectors are simply not kept.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from capmeter.errors import AssetError

_SCHEMA = """
CREATE TABLE IF NOT EXISTS vectors (
    key BLOB PRIMARY KEY, used REAL NOT NULL, bytes INTEGER NOT NULL, checksum INTEGER NOT NULL, states BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_use ON vectors (used, bytes);
"""
_ASKED_AT_ONCE = 500


class StateCache(Protocol):
    """Hidden states by key."""

    def get(self, keys: Sequence[bytes], width: int) -> dict[bytes, NDArray[np.float32]]:
        """The entries found among `keys`, each float32[tokens, width]."""

    def put(self, entries: Iterable[tuple[bytes, NDArray[np.float32]]]) -> None:
        """Keeps the entries."""


class RecentStates:
    """The hidden states met last, in memory, at most `limit` bytes of them."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._entries: OrderedDict[bytes, NDArray[np.float32]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, keys: Sequence[bytes], width: int) -> dict[bytes, NDArray[np.float32]]:
        """The entries found among `keys`; they count as met now."""
        found = {}
        with self._lock:
            for key in keys:
                states = self._entries.get(key)
                if states is not None:
                    self._entries.move_to_end(key)
                    found[key] = states
        return found

    def put(self, entries: Iterable[tuple[bytes, NDArray[np.float32]]]) -> None:
        """Keeps copies of the entries, then drops the longest unmet ones above the limit."""
        with self._lock:
            for key, states in entries:
                former = self._entries.pop(key, None)
                self._bytes -= 0 if former is None else former.nbytes
                self._entries[key] = states.copy()
                self._bytes += states.nbytes
            while self._bytes > self.limit:
                self._bytes -= self._entries.popitem(last=False)[1].nbytes


class VectorCache:
    """Hidden states by key, in one file of `folder`, at most `limit` bytes of them."""

    def __init__(self, folder: Path, limit: int) -> None:
        self.path = folder / "hidden-states.sqlite"
        self.limit = limit
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise AssetError(f"vector cache: cannot make the folder {folder}: {error}") from error

    def get(self, keys: Sequence[bytes], width: int) -> dict[bytes, NDArray[np.float32]]:
        """The entries found among `keys`, each float32[tokens, width]."""
        found: dict[bytes, NDArray[np.float32]] = {}
        damaged: list[bytes] = []
        with self._open() as database:
            if database is None:
                return {}
            for start in range(0, len(keys), _ASKED_AT_ONCE):
                asked = keys[start : start + _ASKED_AT_ONCE]
                marks = ",".join("?" * len(asked))
                rows = database.execute(f"SELECT key, checksum, states FROM vectors WHERE key IN ({marks})", asked)
                for key, checksum, states in rows:
                    if zlib.crc32(states) != checksum or len(states) % (4 * width):
                        damaged.append(key)
                    else:
                        found[key] = np.frombuffer(states, np.float32).reshape(-1, width)
            database.executemany("DELETE FROM vectors WHERE key = ?", ((key,) for key in damaged))
            now = time.time()
            database.executemany("UPDATE vectors SET used = ? WHERE key = ?", ((now, key) for key in found))
        return found

    def put(self, entries: Iterable[tuple[bytes, NDArray[np.float32]]]) -> None:
        """Keeps the entries, then drops the longest unused ones above the limit."""
        now = time.time()
        rows = (
            (key, now, len(blob), zlib.crc32(blob), blob)
            for key, blob in ((key, np.ascontiguousarray(states, np.float32).tobytes()) for key, states in entries)
        )
        with self._open() as database:
            if database is None:
                return
            database.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?, ?)", rows)
            excess = database.execute("SELECT total(bytes) FROM vectors").fetchone()[0] - self.limit
            if excess > 0:
                unused = database.execute("SELECT used, bytes, key FROM vectors ORDER BY used")
                dropped = []
                for _, size, key in unused:
                    if excess <= 0:
                        break
                    excess -= size
                    dropped.append((key,))
                database.executemany("DELETE FROM vectors WHERE key = ?", dropped)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection | None]:
        """A transaction on the file; None where it cannot be had. A file that is no database is replaced."""
        for attempt in range(2):
            try:
                database = sqlite3.connect(self.path, timeout=30)
                database.execute("PRAGMA journal_mode=WAL")
                database.execute("PRAGMA synchronous=OFF")  # a lost entry costs one encoding, a torn one its checksum
                database.executescript(_SCHEMA)
                break
            except sqlite3.OperationalError:  # locked for too long, read-only or full: go on without
                yield None
                return
            except sqlite3.DatabaseError:
                self._discard()
                if attempt:
                    yield None
                    return
        with closing(database):
            try:
                with database:
                    yield database
            except sqlite3.OperationalError:
                return
            except sqlite3.DatabaseError:
                self._discard()

    def _discard(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self.path}{suffix}").unlink(missing_ok=True)


def entry_key(space: str, ids: NDArray[np.int32]) -> bytes:
    """The key of one sentence's hidden states in a space of vectors (weights, layer, precision)."""
    return hashlib.blake2b(space.encode() + b"\0" + ids.tobytes(), digest_size=20).digest()
