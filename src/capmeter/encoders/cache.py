"""An in-memory LRU cache of hidden states; `capmeter.store` keeps them on disk."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


class StateCache(Protocol):
    """Hidden states keyed by space (weights, layer, precision) and content (a sentence's word pieces)."""

    def get(self, analysis: str, contents: Iterable[bytes]) -> Mapping[bytes, Any]:
        """The states found, by content, each float32[tokens, width]."""

    def put(self, analysis: str, entries: Mapping[bytes, Any]) -> None:
        """Stores the states."""


class RecentStates:
    """The most recently used hidden states, in memory, at most `limit` bytes of them."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._entries: OrderedDict[tuple[str, bytes], NDArray[np.float32]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, analysis: str, contents: Iterable[bytes]) -> dict[bytes, NDArray[np.float32]]:
        """The states found, by content; they are marked as recently used."""
        found = {}
        with self._lock:
            for content in contents:
                states = self._entries.get((analysis, content))
                if states is not None:
                    self._entries.move_to_end((analysis, content))
                    found[content] = states
        return found

    def put(self, analysis: str, entries: Mapping[bytes, NDArray[np.float32]]) -> None:
        """Stores copies of the states, then drops the least recently used ones above the limit."""
        with self._lock:
            for content, states in entries.items():
                former = self._entries.pop((analysis, content), None)
                self._bytes -= 0 if former is None else former.nbytes
                self._entries[analysis, content] = states.copy()
                self._bytes += states.nbytes
            while self._bytes > self.limit:
                self._bytes -= self._entries.popitem(last=False)[1].nbytes
