"""The disk cache: what was put is got, bounded, shared by processes, and never wrong however damaged."""

from __future__ import annotations

import multiprocessing
import os
import random
import stat
import sys
import threading
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


def total_bytes(cache: DiskCache) -> int:
    return sum(path.stat().st_size for path in cache.path.rglob("*.*"))


ARRAYS: dict[bytes, Any] = {f"array {k}".encode(): states(k, tokens=400 if k == 7 else k % 5) for k in range(30)}
PARSES: dict[bytes, Any] = {
    b"none": None,
    **{f"parse {k}".encode(): {"heads": [k, k + 1], "labels": ["nsubj", "été"], "p": k / 7} for k in range(30)},
}


def test_what_was_put_is_got(tmp_path: Path) -> None:
    for values in (ARRAYS, PARSES, {b"bytes": np.arange(7, dtype=np.uint8)}):
        DiskCache(tmp_path).put(SPACE, values)
        result = DiskCache(tmp_path).get(SPACE, [*values, b"absent"])
        assert result.keys() == values.keys()
        assert all(same(result[content], value) for content, value in values.items())


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


NOT_NUMBERS = (np.array(["text"]), np.array([None]), np.zeros(2, np.complex128))


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, *NOT_NUMBERS])
def test_what_cannot_be_kept_is_refused(tmp_path: Path, value: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        DiskCache(tmp_path).put("any", {b"a": value})
    with pytest.raises(TypeError):
        DiskCache(tmp_path).put("any", {b"a": np.zeros(2), b"b": np.zeros(2, np.float32)})


def test_reading_makes_no_file(tmp_path: Path) -> None:
    assert DiskCache(tmp_path / "none").get(SPACE, [b"a"]) == {}
    assert not (tmp_path / "none").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_the_folder_is_private(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "new")
    cache.put(SPACE, ARRAYS)
    assert stat.S_IMODE(cache.folder.stat().st_mode) == 0o700


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AssetError, match=r"cannot create the folder .*file"):
        DiskCache(tmp_path / "file" / "cache").put(SPACE, {b"a": 1})


def test_tables_are_kept_whole(tmp_path: Path) -> None:
    cache, table = DiskCache(tmp_path), {"ids": np.arange(5, dtype=np.uint16), "mask": np.array([True, False])}
    cache.put_table("tokens/1", (table, None))
    result, _ = cache.get_table("tokens/1") or ({}, None)
    assert result.keys() == table.keys()
    assert all(same(result[name], array) for name, array in table.items())
    assert cache.get_table("tokens/2") is None


class TestLimit:
    def test_the_files_stay_below(self, tmp_path: Path) -> None:
        cache = DiskCache(tmp_path, 1 << 20)
        for step in range(100):
            cache.put(SPACE, {f"{step}-{k}".encode(): states(k, 16, 64) for k in range(8)})
        assert 0.7 * cache.limit < total_bytes(cache) <= 1.1 * cache.limit
        newest = [f"99-{k}".encode() for k in range(8)]
        assert cache.get(SPACE, newest).keys() == set(newest)
        assert cache.get(SPACE, [b"0-0"]) == {}

    def test_the_least_recently_used_go_first(self, tmp_path: Path) -> None:
        cache, value = DiskCache(tmp_path, 1 << 18), states(1, 16, 64)
        names = [f"{k}".encode() for k in range(40)]
        for step, name in enumerate(names):
            before = set(cache.path.rglob("*.*"))
            cache.put(SPACE, {name: value})
            for path in set(cache.path.rglob("*.*")) - before:
                os.utime(path, (1e9 + step, 1e9 + step))
        assert cache.get(SPACE, names[:10]).keys() == set(names[:10])
        for step in range(30):
            cache.put(SPACE, {f"new {step}".encode(): value})
        remaining = cache.get(SPACE, names)
        assert set(names[:10]) <= remaining.keys()
        assert names[10] not in remaining and names[39] in remaining

    def test_what_is_larger_than_half_is_not_kept(self, tmp_path: Path) -> None:
        cache = DiskCache(tmp_path, 1 << 18)
        cache.put(SPACE, {b"small": states(1)})
        cache.put(SPACE, {b"large": states(2, 64, 1024)})
        assert cache.get(SPACE, [b"small", b"large"]).keys() == {b"small"}


def _write(folder: Path, worker: int) -> int:
    cache = DiskCache(folder)
    result = 0
    for step in range(40):
        cache.put(SPACE, {f"{worker}-{step}-{k}".encode(): states(worker * 1000 + step * 10 + k) for k in range(5)})
        others = {f"{other}-{step}-{k}".encode(): other * 1000 + step * 10 + k for other in range(4) for k in range(5)}
        for content, value in cache.get(SPACE, others).items():
            assert same(value, states(others[content]))
            result += 1
    return result


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        result = pool.starmap(_write, [(tmp_path / "cache", worker) for worker in range(4)])
    assert min(result) >= 200  # at least what each wrote itself
    keys = [f"{worker}-{step}-{k}".encode() for worker in range(4) for step in range(40) for k in range(5)]
    assert DiskCache(tmp_path / "cache").get(SPACE, keys).keys() == set(keys)


def test_threads_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    for trial in range(10):
        folder = tmp_path / str(trial)
        threads = [threading.Thread(target=DiskCache(folder).put, args=(SPACE, {b"%d" % k: k})) for k in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(DiskCache(folder).get(SPACE, [b"%d" % k for k in range(8)])) == 8


@pytest.mark.parametrize("content", [b"", b"never arrays" * 100, b"\0" * 9000, "half", "head", "values"])
def test_a_damaged_file_is_deleted_and_made_again(tmp_path: Path, content: bytes | str) -> None:
    cache = DiskCache(tmp_path)
    cache.put(SPACE, ARRAYS)
    cache.put(SPACE, {b"other": 1})
    path = max(cache.path.rglob("*.*"), key=lambda path: path.stat().st_size)
    good = path.read_bytes()
    changed = {
        "half": good[: len(good) // 2],
        "head": good[:20] + b"x" + good[21:],
        "values": good[:-9000] + b"\xff" * 9000,
    }
    path.write_bytes(changed[content] if isinstance(content, str) else content)
    for fresh in (False, True):
        if fresh:
            module._indices.clear()
        remaining = cache.get(SPACE, [*ARRAYS, b"other"])
        assert remaining.pop(b"other") == 1
        if content != "values":  # numbers that were changed in a file of ours are trusted
            assert not remaining and not path.exists()
    cache.put(SPACE, ARRAYS)
    assert cache.get(SPACE, ARRAYS).keys() == ARRAYS.keys() and path.read_bytes() == good


def test_whatever_is_damaged_nothing_is_raised(tmp_path: Path) -> None:
    cache, draw = DiskCache(tmp_path), random.Random(5)
    cache.put(SPACE, ARRAYS)
    (path,) = cache.path.rglob("*.*")
    good = path.read_bytes()
    for _ in range(300):
        data = bytearray(good)
        for _ in range(draw.randrange(1, 6)):
            data[draw.randrange(draw.choice([400, len(data)]))] = draw.randrange(256)
        path.write_bytes(data)
        module._indices.clear()
        cache.get(SPACE, ARRAYS)


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="needs a user whom permissions stop")
def test_a_folder_that_is_read_only_is_read(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    cache.put(SPACE, {b"a": 1})
    (folder,) = cache.path.iterdir()
    folder.chmod(0o500)
    try:
        cache.put(SPACE, {b"b": 2})
        assert cache.get(SPACE, [b"a", b"b"]) == {b"a": 1}
    finally:
        folder.chmod(0o700)
