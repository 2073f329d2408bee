"""Results of analyses: in memory, on disk, or computed.

`Settings` are the cache policy of a run: `settings.result_cache()` keeps results in memory and, if the settings name a
folder, on disk.

>>> cache = ResultCache(MemoryCache())
>>> captions = [b"a dog runs", b"a cat"]
>>> cache.results("lengths/1", captions, lambda rows: [len(captions[k]) for k in rows])
[10, 5]
>>> cache.results("lengths/1", captions, lambda rows: [None for k in rows])
[10, 5]
"""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from capmeter.core import progress

if TYPE_CHECKING:
    from capmeter.core.disk_cache import DiskCache

MEMORY_BYTES = 1 << 28
"""Capacity of the cache in memory that the runs of a process share."""
_VALUE_BYTES = 2048  # of a value that is not an array, approximately


class MemoryCache:
    """Values by key, shared by threads; the least recently used are dropped first.

    Args:
        capacity: maximum size of the values in bytes; 0 disables the cache.
    """

    def __init__(self, capacity: int = MEMORY_BYTES) -> None:
        self.capacity = capacity
        self._values: OrderedDict[Hashable, Any] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._values)

    def __reduce__(self) -> Any:
        """Values stay in their process: another one has a cache of the same capacity."""
        return shared_memory, (self.capacity,)

    def get(self, key: Hashable) -> Any:
        """The value, which counts as used now; None if it is not cached."""
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def put(self, key: Hashable, value: Any) -> None:
        """Caches a value, then drops the least recently used ones above the capacity."""
        with self._lock:
            if key in self._values:
                self._size -= _size_of(self._values.pop(key))
            self._values[key] = value
            self._size += _size_of(value)
            while self._size > self.capacity:
                self._size -= _size_of(self._values.popitem(last=False)[1])


@functools.cache
def shared_memory(capacity: int) -> MemoryCache:
    """The cache in memory of this process with this capacity."""
    return MemoryCache(capacity)


def encode_texts(texts: Iterable[str]) -> list[bytes]:
    """Texts as the contents that results are cached for; a text may hold half a surrogate pair."""
    return [text.encode("utf-8", "surrogatepass") for text in texts]


@dataclass(frozen=True)
class ResultCache:
    """Results of analyses, in memory and on disk.

    A result is named by the analysis's identity (everything that affects results) and by what was analysed: a sentence,
    an image's hash.
    """

    memory: MemoryCache
    disk: DiskCache | None = None

    def results(
        self,
        analysis: str,
        contents: Sequence[bytes],
        compute: Callable[[list[int]], Iterable[Any]],
        *,
        batch_size: int = 1024,
        decode: Callable[[Any], Any] = lambda value: value,
        task: str = "",
    ) -> list[Any]:
        """The result of each content, cached or computed.

        Args:
            analysis: the analysis's identity.
            contents: what is analysed.
            compute: returns the results of the contents at some positions: arrays of numbers, or JSON values; None is
                not cached.
            batch_size: the number of results that are computed and then cached, so that a run that is killed continues.
            decode: what makes the result that is used, and held in memory, of a JSON value.
            task: what the progress of computing is called; "" shows none.
        """
        results: dict[bytes, Any] = {}
        absent: dict[bytes, int] = {}
        for position, content in enumerate(contents):
            if (result := self.memory.get((analysis, content))) is not None:
                results[content] = result
            else:
                absent.setdefault(content, position)
        if absent and self.disk is not None:
            for content, value in self.disk.get(analysis, absent).items():
                results[content] = self._remember((analysis, content), value, decode)
        missing = [position for content, position in absent.items() if content not in results]
        with progress.task(task, len(missing)) if task and missing else nullcontext(lambda steps: None) as advance:
            for batch in (missing[k : k + batch_size] for k in range(0, len(missing), batch_size)):
                computed = {contents[k]: value for k, value in zip(batch, compute(batch), strict=True)}
                cacheable = {content: value for content, value in computed.items() if value is not None}
                if self.disk is not None:
                    self.disk.put(analysis, cacheable)
                for content, value in cacheable.items():
                    computed[content] = self._remember((analysis, content), value, decode)
                results |= computed
                advance(len(batch))
        return [results[content] for content in contents]

    def _remember(self, key: tuple[str, bytes], value: Any, decode: Callable[[Any], Any]) -> Any:
        result = value.copy() if hasattr(value, "nbytes") else decode(value)  # an array may be a row of a large one
        self.memory.put(key, result)
        return result


def _size_of(value: Any) -> int:
    return int(getattr(value, "nbytes", _VALUE_BYTES))
