"""Values that are likely to be asked for again, in memory: the least recently used give way.

>>> recent = Recent[str, int](most=2)
>>> for word in ("a", "dog", "a", "runs"):
...     if recent.get(word) is None:
...         recent.put(word, len(word))
>>> recent.get("a"), recent.get("dog"), recent.get("runs")
(1, None, 4)
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """At most `most` values by their keys; threads may share them."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._values: OrderedDict[Key, Value] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Key) -> Value | None:
        """The value, which counts as used now; None where there is none."""
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def put(self, key: Key, value: Value) -> None:
        """Keeps a value, and drops the least recently used one above the limit."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            if len(self._values) > self.most:
                self._values.popitem(last=False)

    def clear(self) -> None:
        """Drops all values."""
        with self._lock:
            self._values.clear()
