"""Caches in memory: bounded, least recently used first; tiered caches; the caches that settings name."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np

from capmeter.core.caches import MemoryCaches, TieredCache
from capmeter.core.disk_cache import DiskCache
from capmeter.core.lru import LRUCache
from capmeter.core.settings import Settings


def states(seed: int, tokens: int = 4, width: int = 8) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((tokens, width)).astype(np.float32)


def test_the_least_recently_used_are_dropped_above_the_capacity() -> None:
    cache: LRUCache[str, str] = LRUCache(10, len)
    for word in ("four", "fives", "a"):
        cache.put(word, word)
    cache.get("four")
    cache.put("two", "tw")
    assert [cache.get(word) for word in ("four", "fives", "a", "two")] == ["four", None, "a", "tw"]
    cache.put("four", "f")
    cache.put("fives", "fives")
    assert len(cache) == 4
    cache.clear()
    assert len(cache) == 0 and cache.get("a") is None


def test_arrays_are_copied_within_a_limit() -> None:
    memory = MemoryCaches(hidden_states=3 * states(0).nbytes)
    cache = TieredCache(memory.of("hidden_states"))
    original = states(1)
    cache.put("x", {b"a": original, b"b": states(2), b"c": states(3)})
    original[:] = 0
    np.testing.assert_array_equal(cache.get("x", [b"a"])[b"a"], states(1))
    cache.put("x", {b"d": states(4)})
    cache.put("x", {b"d": states(5)})
    assert set(cache.get("x", [b"a", b"b", b"c", b"d"])) == {b"a", b"c", b"d"}
    np.testing.assert_array_equal(cache.get("x", [b"d"])[b"d"], states(5))
    assert not cache.get("y", [b"a"])
    disabled = TieredCache(MemoryCaches(hidden_states=0).of("hidden_states"))
    disabled.put("x", {b"a": states(1)})
    assert not disabled.get("x", [b"a"])


def test_what_memory_lacks_is_read_from_disk(tmp_path: Path) -> None:
    TieredCache(LRUCache(9), DiskCache(tmp_path)).put("lengths", {b"a": 1, b"b": 2})
    cache = TieredCache(LRUCache(9), DiskCache(tmp_path))
    cache.memory.put(("lengths", b"b"), 3)
    assert cache.get("lengths", [b"a", b"b", b"c"]) == {b"a": 1, b"b": 3}


def test_settings_name_the_caches_of_a_run(tmp_path: Path) -> None:
    assert Settings(cache=str(tmp_path)).cache == tmp_path
    assert Settings(cache=None).disk_cache() is None
    assert Settings(cache=tmp_path, cache_bytes=1 << 20).disk_cache() == DiskCache(tmp_path, 1 << 20)
    cache = Settings(cache=tmp_path).tiered_cache("image_notes")
    assert cache == Settings(cache=tmp_path).tiered_cache("image_notes")
    assert cache != Settings(cache=tmp_path, memory=MemoryCaches()).tiered_cache("image_notes")


def test_caches_stay_in_their_process() -> None:
    settings = Settings()
    settings.memory.of("parses").put("a dog", 1)
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert pickle.loads(pickle.dumps(settings)).memory is settings.memory  # those of the process that unpickles
