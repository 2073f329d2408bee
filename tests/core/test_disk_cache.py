"""The disk cache: what was put is got, bounded, shared by processes, and never wrong however damaged."""

from __future__ import annotations

import multiprocessing
import os
import random
import sqlite3
import stat
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capmeter.core import disk_cache as module
from capmeter.core.disk_cache import DiskCache
from capmeter.core.errors import AssetError

SPACE = "states/abc layer=6"


def states(seed: int, tokens: int = 4, width: int = 8) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((tokens, width)).astype(np.float32)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and one.dtype == other.dtype and np.array_equal(one, other)
    return type(one) is type(other) and one == other


VALUES: dict[bytes, Any] = {
    **{f"array {k}".encode(): states(k, tokens=k % 5 + 1) for k in range(30)},
    **{f"parse {k}".encode(): {"heads": [k, k + 1], "labels": ["nsubj", "été"], "p": k / 7} for k in range(30)},
    b"long": states(99, tokens=400),
    b"bytes": np.arange(7, dtype=np.uint8),
    b"none": None,
}


def test_what_was_put_is_got(tmp_path: Path) -> None:
    DiskCache(tmp_path).put(SPACE, VALUES)
    found = DiskCache(tmp_path).get(SPACE, [*VALUES, b"absent"])
    assert found.keys() == VALUES.keys()
    assert all(same(found[content], value) for content, value in VALUES.items())
    assert not found[b"long"].flags.writeable


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    # halves of surrogate pairs are text to Python
    | st.text(st.characters(exclude_categories=[])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=60)
@given(content=st.binary(max_size=40), value=JSON)
def test_every_json_value_comes_back(tmp_path_factory: pytest.TempPathFactory, content: bytes, value: Any) -> None:
    cache = DiskCache(tmp_path_factory.getbasetemp() / "json-values")
    cache.put("any", {content: value})
    assert same(cache.get("any", [content])[content], value)


def test_analyses_do_not_share_entries(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    cache.put("one", {b"a": 1})
    cache.put("two", {b"a": 2})
    assert (cache.get("one", [b"a"]), cache.get("two", [b"a"]), cache.get("three", [b"a"])) == (
        {b"a": 1},
        {b"a": 2},
        {},
    )
    cache.put("one", {b"a": 3})
    assert cache.get("one", [b"a"]) == {b"a": 3}


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, np.array(["text"]), np.array([None])])
def test_what_cannot_be_kept_is_refused(tmp_path: Path, value: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        DiskCache(tmp_path).put("any", {b"a": value})


def test_reading_makes_no_file(tmp_path: Path) -> None:
    assert DiskCache(tmp_path / "none").get(SPACE, [b"a"]) == {}
    assert not (tmp_path / "none").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_files_are_private_and_not_executable(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "new")
    cache.put(SPACE, VALUES)
    with sqlite3.connect(cache.path) as open_now:
        open_now.execute("SELECT count(*) FROM entries").fetchone()
        modes = {stat.S_IMODE(path.stat().st_mode) for path in cache.folder.iterdir()}
        assert len(list(cache.folder.iterdir())) == 3
    assert modes == {0o600}
    assert stat.S_IMODE(cache.folder.stat().st_mode) == 0o700


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AssetError, match=r"cannot create the folder .*file"):
        DiskCache(tmp_path / "file" / "cache").put(SPACE, {b"a": 1})


class TestLimit:
    def test_the_file_stays_below(self, tmp_path: Path) -> None:
        cache = DiskCache(tmp_path, 1 << 20)
        for step in range(100):
            cache.put(SPACE, {f"{step}-{k}".encode(): states(k, 16, 64) for k in range(8)})
        assert 0.7 * cache.limit < cache.path.stat().st_size <= cache.limit
        newest = [f"99-{k}".encode() for k in range(8)]
        assert cache.get(SPACE, newest).keys() == set(newest)
        assert cache.get(SPACE, [b"0-0"]) == {}

    def test_the_least_recently_used_go_first(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        now = 1_000_000.0
        monkeypatch.setattr(module.time, "time", lambda: now)
        cache = DiskCache(tmp_path, 1 << 18)
        value = states(1, 16, 64)
        names = [f"{k}".encode() for k in range(40)]
        for name in names:
            cache.put(SPACE, {name: value})
            now += 7200
        assert cache.get(SPACE, names[:10]).keys() == set(names[:10])
        for step in range(30):
            cache.put(SPACE, {f"new {step}".encode(): value})
        kept = cache.get(SPACE, names)
        assert set(names[:10]) <= kept.keys()
        assert names[10] not in kept and names[39] in kept

    def test_what_is_larger_than_half_is_not_kept(self, tmp_path: Path) -> None:
        cache = DiskCache(tmp_path, 1 << 18)
        cache.put(SPACE, {b"small": states(1)})
        cache.put(SPACE, {b"large": states(2, 64, 1024)})
        assert cache.get(SPACE, [b"small", b"large"]).keys() == {b"small"}


def _write(folder: Path, worker: int) -> int:
    cache = DiskCache(folder)
    found = 0
    for step in range(40):
        cache.put(SPACE, {f"{worker}-{step}-{k}".encode(): states(worker * 1000 + step * 10 + k) for k in range(5)})
        others = {f"{other}-{step}-{k}".encode(): other * 1000 + step * 10 + k for other in range(4) for k in range(5)}
        for content, value in cache.get(SPACE, others).items():
            assert same(value, states(others[content]))
            found += 1
    return found


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        found = pool.starmap(_write, [(tmp_path / "cache", worker) for worker in range(4)])
    assert min(found) >= 200  # at least what each wrote itself
    keys = [f"{worker}-{step}-{k}".encode() for worker in range(4) for step in range(40) for k in range(5)]
    assert DiskCache(tmp_path / "cache").get(SPACE, keys).keys() == set(keys)


def test_threads_that_make_the_file_at_once_lose_nothing(tmp_path: Path) -> None:
    for trial in range(10):
        folder = tmp_path / str(trial)
        threads = [threading.Thread(target=DiskCache(folder).put, args=(SPACE, {b"%d" % k: k})) for k in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(DiskCache(folder).get(SPACE, [b"%d" % k for k in range(8)])) == 8


def test_a_locked_file_is_done_without(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, lock_timeout=0.05)
    cache.put(SPACE, {b"a": 1})
    holder = sqlite3.connect(cache.path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    cache.put(SPACE, {b"b": 2})
    assert cache.get(SPACE, [b"a"]) == {b"a": 1}  # readers do not wait for writers
    holder.execute("ROLLBACK")
    holder.close()
    assert cache.get(SPACE, [b"a", b"b"]) == {b"a": 1}


class TestDamage:
    @pytest.mark.parametrize("content", [b"this was never a database" * 100, b"", b"SQLite format 3\0", b"\0" * 9000])
    def test_a_file_that_is_no_store_is_replaced(self, tmp_path: Path, content: bytes) -> None:
        cache = DiskCache(tmp_path)
        cache.path.write_bytes(content)
        assert cache.get(SPACE, [b"a"]) == {}
        cache.put(SPACE, {b"a": 1})
        assert cache.get(SPACE, [b"a"]) == {b"a": 1}

    @pytest.mark.parametrize("statement", ["PRAGMA user_version = 7", "PRAGMA user_version = 0", "DROP TABLE entries"])
    def test_a_store_of_another_version_is_replaced(self, tmp_path: Path, statement: str) -> None:
        cache = DiskCache(tmp_path)
        cache.put(SPACE, {b"a": 1})
        with sqlite3.connect(cache.path) as database:
            database.execute(statement)
        assert cache.get(SPACE, [b"a"]) == {}
        cache.put(SPACE, {b"a": 2})
        assert cache.get(SPACE, [b"a"]) == {b"a": 2}

    def test_a_view_without_end_is_replaced(self, tmp_path: Path) -> None:
        cache = DiskCache(tmp_path)
        cache.put(SPACE, {b"a": 1})
        with sqlite3.connect(cache.path) as database:
            database.execute("DROP TABLE entries")
            database.execute(
                "CREATE VIEW entries AS WITH RECURSIVE n(key) AS (SELECT 1 UNION ALL SELECT key + 1 FROM n) "
                "SELECT key, 0 AS used, 0 AS checksum, 'x' AS form, 'x' AS value FROM n"
            )
        assert cache.get(SPACE, [b"a"]) == {}
        cache.put(SPACE, {b"a": 2})
        assert cache.get(SPACE, [b"a"]) == {b"a": 2}

    def test_a_damaged_entry_is_dropped_alone(self, tmp_path: Path) -> None:
        cache = DiskCache(tmp_path)
        cache.put(SPACE, {b"a": states(1), b"b": states(2)})
        with sqlite3.connect(cache.path) as database:
            database.execute("UPDATE entries SET value = ? WHERE id = 1", (states(3).tobytes(),))
        assert cache.get(SPACE, [b"a", b"b"]).keys() == {b"b"}
        with sqlite3.connect(cache.path) as database:
            assert database.execute("SELECT id FROM entries").fetchall() == [(2,)]

    def test_a_value_under_anothers_key_is_dropped(self, tmp_path: Path) -> None:
        cache = DiskCache(tmp_path)
        cache.put(SPACE, {b"a": 1, b"b": 2})
        with sqlite3.connect(cache.path) as database:
            database.execute("UPDATE entries SET key = -key")
            rows = dict(database.execute("SELECT id, key FROM entries"))
            database.execute("UPDATE entries SET key = 5 WHERE id = 1")
            database.execute("UPDATE entries SET key = ? WHERE id = 2", (-rows[1],))
            database.execute("UPDATE entries SET key = ? WHERE id = 1", (-rows[2],))
        assert cache.get(SPACE, [b"a", b"b"]) == {}

    def test_damaged_columns(self, tmp_path: Path) -> None:
        """3,000 entries with a column of another type or content: each is right or absent, and comes back."""
        draw = random.Random(5)
        cache = DiskCache(tmp_path)
        contents = [f"{k}".encode() for k in range(3000)]
        cache.put(SPACE, dict.fromkeys(contents, VALUES[b"parse 3"]))
        hostile = [
            None,
            "text",
            "\ud800".encode("utf-8", "surrogatepass"),
            b"\xff\xfe",
            b"",
            0,
            -1,
            2**62,
            1.5,
            "1",
            b"<f4 3",
        ]
        with sqlite3.connect(cache.path) as database:
            database.execute("PRAGMA writable_schema = ON")
            database.execute("UPDATE sqlite_master SET sql = replace(sql, 'NOT NULL', '')")
            for k in range(1, 3001):
                column = draw.choice(["used", "bytes", "checksum", "form", "value"])
                changed = draw.choice(hostile)
                if isinstance(changed, bytes) and draw.random() < 0.3:
                    changed = b"{" + draw.randbytes(draw.randrange(40))
                text = draw.random() < 0.5
                database.execute(
                    f"UPDATE entries SET {column} = " + ("CAST(? AS TEXT)" if text else "?") + " WHERE id = ?",
                    (changed, k),
                ) if changed is not None else None
        found = cache.get(SPACE, contents)
        assert 0 < len(found) < 3000
        assert all(value == VALUES[b"parse 3"] for value in found.values())
        cache.put(SPACE, {content: 1 for content in contents if content not in found})
        assert len(cache.get(SPACE, contents)) == 3000

    @pytest.mark.parametrize(("seed", "number"), [(0, 200), pytest.param(1, 800, marks=pytest.mark.slow)])
    def test_damaged_files(self, tmp_path: Path, seed: int, number: int) -> None:
        """Bytes changed, cut off, moved, in the file or its log: never another value, never an error, whole after."""
        draw = random.Random(seed)
        whole = DiskCache(tmp_path / "whole")
        whole.put(SPACE, dict(list(VALUES.items())[:40]))
        before = whole.path.read_bytes()
        log = Path(f"{whole.path}-wal")
        with closing(sqlite3.connect(whole.path)) as holder:  # keeps the log from being merged into the file
            holder.execute("SELECT count(*) FROM entries").fetchone()
            whole.put(SPACE, VALUES)
            logged = log.read_bytes()
        good = whole.path.read_bytes()
        assert not log.exists() and len(logged) > 10_000
        (tmp_path / "cache").mkdir()
        cache = DiskCache(tmp_path / "cache")
        damaged = 0
        for _ in range(number):
            for path in cache.folder.iterdir():
                path.unlink()
            if draw.random() < 0.3:
                cache.path.write_bytes(before)
                Path(f"{cache.path}-wal").write_bytes(_mutated(logged, draw))
            else:
                cache.path.write_bytes(_mutated(good, draw))
            found = cache.get(SPACE, VALUES)
            damaged += len(found) < len(VALUES)
            for _ in range(3):
                assert all(same(value, VALUES[content]) for content, value in found.items())
                if len(found) == len(VALUES):
                    break
                cache.put(SPACE, {content: value for content, value in VALUES.items() if content not in found})
                found = cache.get(SPACE, VALUES)
            assert found.keys() == VALUES.keys()
        assert damaged > number / 3


def _mutated(good: bytes, draw: random.Random) -> bytes:
    data = bytearray(good)
    kind = draw.randrange(6)
    if kind == 0:  # a few bytes anywhere
        for _ in range(draw.randrange(1, 9)):
            data[draw.randrange(len(data))] = draw.randrange(256)
    elif kind == 1:  # a bit of the first page: the file's head and its schema
        data[draw.randrange(1200)] ^= 1 << draw.randrange(8)
    elif kind == 2:
        del data[draw.randrange(len(data)) :]
    elif kind == 3:  # a page in another's place
        one, other = (4096 * draw.randrange(len(data) // 4096) for _ in range(2))
        data[one : one + 4096] = good[other : other + 4096]
    elif kind == 4:
        at = draw.randrange(len(data))
        data[at:at] = draw.randbytes(draw.randrange(1, 100))
    else:  # the head of a page: its kind, number of cells, free space
        data[4096 * draw.randrange(1, len(data) // 4096) + draw.randrange(16)] = draw.randrange(256)
    return bytes(data)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root writes everywhere")
def test_a_read_only_store_is_read(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    cache.put(SPACE, {b"a": 1})
    cache.path.chmod(0o400)
    cache.put(SPACE, {b"b": 1})
    assert cache.path.exists()
