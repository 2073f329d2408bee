"""Caches of results: in memory, by kind of result, and tiered (in memory, then on disk).

`Settings` are the cache policy of a run: `settings.tiered_cache("hidden_states")` is the cache of a kind of result, in
memory and, if the settings name a folder, on disk.

>>> cache = TieredCache(MemoryCaches().of("hidden_states"))
>>> cache.put("word-count/1", {b"a dog runs": 3})
>>> cache.get("word-count/1", [b"a dog runs", b"a cat"])
{b'a dog runs': 3}
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from capmeter.core.lru import LRUCache

if TYPE_CHECKING:
    from capmeter.core.disk_cache import DiskCache

CAPACITIES = {
    "hidden_states": 1 << 28,
    "joint_features": 1 << 27,
    "image_notes": 1 << 16,
    "parses": 1 << 15,
    "scenes": 1 << 20,
    "scene_graphs": 1 << 14,
}
"""Capacity of the in-memory cache of each kind of result: bytes of arrays, or the number of other values."""


class MemoryCaches:
    """In-memory caches by kind of result. All runs of a process share one instance, unless they are given another.

    Args:
        capacities: of some kinds of result, in place of `CAPACITIES`; 0 disables a cache.
    """

    def __init__(self, **capacities: int) -> None:
        self._capacities = capacities
        self._caches: dict[str, LRUCache[Any, Any]] = {}
        self._lock = threading.Lock()

    def of(self, kind: str) -> LRUCache[Any, Any]:
        """The cache of a kind of result."""
        with self._lock:
            if kind not in self._caches:
                self._caches[kind] = LRUCache((CAPACITIES | self._capacities)[kind], _size_of)
            return self._caches[kind]

    def __reduce__(self) -> Any:
        """Results stay in their process: another one has caches of the same capacities."""
        return shared_caches, tuple(sorted(self._capacities.items()))


@functools.cache
def shared_caches(*capacities: tuple[str, int]) -> MemoryCaches:
    """The in-memory caches of this process with these capacities."""
    return MemoryCaches(**dict(capacities))


@dataclass(frozen=True)
class TieredCache:
    """Results of one kind, in memory and on disk.

    A result is keyed by the analysis's identity (everything that affects results) and by what was analysed: a sentence,
    an image's hash. Arrays are copied into memory, so that a row does not retain the whole table.
    """

    memory: LRUCache[tuple[str, bytes], Any]
    disk: DiskCache | None = None

    def get(self, analysis: str, contents: Iterable[bytes]) -> dict[bytes, Any]:
        """The cached results, by content."""
        results, absent_contents = {}, []
        for content in contents:
            result = self.memory.get((analysis, content))
            if result is None:
                absent_contents.append(content)
            else:
                results[content] = result
        if absent_contents and self.disk is not None:
            results |= self.disk.get(analysis, absent_contents)
        return results

    def put(self, analysis: str, results: Mapping[bytes, Any]) -> None:
        """Cache these results, by content."""
        for content, result in results.items():
            self.memory.put((analysis, content), result.copy() if hasattr(result, "nbytes") else result)
        if self.disk is not None:
            self.disk.put(analysis, results)


def _size_of(value: Any) -> int:
    return int(getattr(value, "nbytes", 1))
