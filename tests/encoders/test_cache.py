"""The on-disk cache of hidden states: bounded, shared, and rid of what is damaged."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import numpy as np

from capmeter.encoders import Settings
from capmeter.encoders.cache import RecentStates, VectorCache, entry_key


def states(seed: int, tokens: int = 4, width: int = 8) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((tokens, width)).astype(np.float32)


def test_what_was_put_is_got(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path, 1 << 20)
    cache.put([(b"a", states(1)), (b"b", states(2, tokens=7))])
    found = VectorCache(tmp_path, 1 << 20).get([b"a", b"b", b"c"], 8)
    assert set(found) == {b"a", b"b"}
    np.testing.assert_array_equal(found[b"a"], states(1))
    np.testing.assert_array_equal(found[b"b"], states(2, tokens=7))


def test_a_damaged_entry_is_dropped_alone(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path, 1 << 20)
    cache.put([(b"a", states(1)), (b"b", states(2))])
    with sqlite3.connect(cache.path) as database:
        database.execute("UPDATE vectors SET states = ? WHERE key = ?", (states(3).tobytes(), b"a"))
    assert set(cache.get([b"a", b"b"], 8)) == {b"b"}
    with sqlite3.connect(cache.path) as database:
        assert [row[0] for row in database.execute("SELECT key FROM vectors")] == [b"b"]


def test_a_file_that_is_no_database_is_replaced(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path, 1 << 20)
    cache.path.write_bytes(b"this was never a database" * 100)
    assert cache.get([b"a"], 8) == {}
    cache.put([(b"a", states(1))])
    assert set(cache.get([b"a"], 8)) == {b"a"}


def test_the_longest_unused_go_first(tmp_path: Path) -> None:
    size = states(0).nbytes
    cache = VectorCache(tmp_path, 3 * size)
    for name in (b"a", b"b", b"c"):
        cache.put([(name, states(1))])
    cache.get([b"a"], 8)
    cache.put([(b"d", states(2))])
    assert set(cache.get([b"a", b"b", b"c", b"d"], 8)) == {b"a", b"c", b"d"}


def test_parallel_writers_lose_nothing(tmp_path: Path) -> None:
    def write(worker: int) -> None:
        cache = VectorCache(tmp_path, 1 << 24)
        for step in range(20):
            cache.put([(f"{worker}-{step}".encode(), states(worker * 100 + step))])

    workers = [threading.Thread(target=write, args=(worker,)) for worker in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    keys = [f"{worker}-{step}".encode() for worker in range(4) for step in range(20)]
    found = VectorCache(tmp_path, 1 << 24).get(keys, 8)
    assert set(found) == set(keys)
    np.testing.assert_array_equal(found[b"3-7"], states(307))


def test_a_key_tells_space_and_pieces_apart() -> None:
    pieces = np.array([101, 5, 102], np.int32)
    keys = {entry_key("x", pieces), entry_key("y", pieces), entry_key("x", pieces[:2])}
    assert len(keys) == 3
    assert entry_key("x", pieces) == entry_key("x", pieces.copy())


def test_recent_states_are_copies_within_a_limit() -> None:
    recent = RecentStates(3 * states(0).nbytes)
    mine = states(1)
    recent.put([(b"a", mine), (b"b", states(2)), (b"c", states(3))])
    mine[:] = 0
    np.testing.assert_array_equal(recent.get([b"a"], 8)[b"a"], states(1))
    recent.put([(b"d", states(4)), (b"d", states(5))])
    assert set(recent.get([b"a", b"b", b"c", b"d"], 8)) == {b"a", b"c", b"d"}
    np.testing.assert_array_equal(recent.get([b"d"], 8)[b"d"], states(5))
    assert not RecentStates(0).get([b"a"], 8)


def test_a_folder_may_be_text(tmp_path: Path) -> None:
    assert Settings(cache=str(tmp_path)).cache == tmp_path
