"""A bounded in-memory cache: the least recently used values are dropped first.

>>> cache = LRUCache[str, int](capacity=2)
>>> for word in ("a", "dog", "a", "runs"):
...     if cache.get(word) is None:
...         cache.put(word, len(word))
>>> cache.get("a"), cache.get("dog"), cache.get("runs")
(1, None, 4)
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class LRUCache(Generic[Key, Value]):
    """Values by key, shared by threads.

    Args:
        capacity: maximum total size of the values.
        size_of: size of a value; by default each counts 1.
    """

    def __init__(self, capacity: int, size_of: Callable[[Value], int] = lambda value: 1) -> None:
        self.capacity = capacity
        self._size_of = size_of
        self._values: OrderedDict[Key, Value] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Key) -> Value | None:
        """The value, which counts as used now; None if it is not cached."""
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def put(self, key: Key, value: Value) -> None:
        """Cache a value, then drop the least recently used ones above the capacity."""
        with self._lock:
            if key in self._values:
                self._size -= self._size_of(self._values.pop(key))
            self._values[key] = value
            self._size += self._size_of(value)
            while self._size > self.capacity:
                self._size -= self._size_of(self._values.popitem(last=False)[1])

    def clear(self) -> None:
        """Drop all values."""
        with self._lock:
            self._values.clear()
            self._size = 0
