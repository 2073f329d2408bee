"""Caches in memory: bounded, least recently used first; results in memory, on disk, or computed."""

from __future__ import annotations

import pickle
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capmeter.core.disk_cache import DiskCache
from capmeter.core.settings import MemoryCache, ResultCache, Settings, encode_texts

SENTENCES = ["a dog runs", "", "zwei Hunde \ud800", "two cats", "a bus"]
CONTENTS = encode_texts(SENTENCES)


def test_the_least_recently_used_are_dropped_above_the_capacity() -> None:
    cache = MemoryCache(10)
    for size in (4, 5, 1):
        cache.put(size, np.zeros(size, np.uint8))
    cache.get(4)
    cache.put(2, np.zeros(2, np.uint8))
    assert [cache.get(size) is not None for size in (4, 5, 1, 2)] == [True, False, True, True]
    cache.put(4, np.zeros(1, np.uint8))
    cache.put(5, np.zeros(5, np.uint8))
    assert len(cache) == 4


class Words:
    """Counts the words of sentences, as arrays or JSON values, and notes which."""

    def __init__(self, as_arrays: bool = False) -> None:
        self.as_arrays, self.computed = as_arrays, list[str]()

    def __call__(self, rows: list[int]) -> list[Any]:
        sentences = [SENTENCES[row] for row in rows]
        if "a bus" in sentences:
            raise KeyboardInterrupt
        self.computed += sentences
        if self.as_arrays:
            return list(np.arange(2 * len(rows)).reshape(-1, 2))
        return [None if "\ud800" in sentence else {"words": tuple(sentence.split())} for sentence in sentences]


@pytest.mark.parametrize("place", ["memory", "disk", "nowhere"])
def test_each_result_is_computed_once_where_it_is_cached(tmp_path: Path, place: str) -> None:
    def cache() -> ResultCache:
        disk = DiskCache(tmp_path) if place == "disk" else None
        return ResultCache(memory if place == "memory" else MemoryCache(0), disk)

    memory, words = MemoryCache(), Words()
    expected = [["a", "dog", "runs"], [], None, ["two", "cats"]]
    for _ in range(2):
        values = cache().results("words/1", CONTENTS[:4], words, decode=lambda value: list(value["words"]))
        assert values == expected
    again = 4 if place == "nowhere" else 1  # None is not cached
    assert len(words.computed) == 4 + again
    cache().results("words/2", CONTENTS[:1] * 3, words)
    assert words.computed[4 + again :] == SENTENCES[:1], "another analysis; the same content once"


def test_a_run_that_is_killed_continues(tmp_path: Path) -> None:
    words = Words()
    with pytest.raises(KeyboardInterrupt):
        ResultCache(MemoryCache(0), DiskCache(tmp_path)).results("words/1", CONTENTS, words, batch_size=2)
    assert words.computed == SENTENCES[:4]
    remaining = DiskCache(tmp_path).get("words/1", CONTENTS)
    assert remaining.keys() == {CONTENTS[0], CONTENTS[1], CONTENTS[3]}


def test_arrays_are_copied_within_a_limit() -> None:
    memory, words = MemoryCache(3 * 16), Words(as_arrays=True)
    cache = ResultCache(memory)
    table = cache.results("words/1", CONTENTS[:4], words)
    assert all(np.shares_memory(one, two) is False for one, two in pairwise(table))
    assert [memory.get(("words/1", content)) is not None for content in CONTENTS[:4]] == [False, True, True, True]
    cache.results("words/1", CONTENTS[1:4], words)
    assert len(words.computed) == 4


def test_settings_name_the_caches_of_a_run(tmp_path: Path) -> None:
    assert Settings(cache=str(tmp_path)).cache == tmp_path  # type: ignore[arg-type]
    assert Settings(cache=None).disk_cache() is None
    assert Settings(cache=tmp_path, cache_bytes=1 << 20).disk_cache() == DiskCache(tmp_path, 1 << 20)


def test_caches_stay_in_their_process() -> None:
    settings = Settings()
    settings.memory.put("a dog", 1)
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert pickle.loads(pickle.dumps(settings)).memory is settings.memory  # that of the process that unpickles
