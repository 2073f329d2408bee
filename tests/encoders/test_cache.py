"""Hidden states in memory: copies, bounded. On disk they lie in the store of analyses (tests/test_store.py)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from capmeter.encoders import Settings
from capmeter.encoders.cache import RecentStates


def states(seed: int, tokens: int = 4, width: int = 8) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((tokens, width)).astype(np.float32)


def test_recent_states_are_copies_within_a_limit() -> None:
    recent = RecentStates(3 * states(0).nbytes)
    mine = states(1)
    recent.put("x", {b"a": mine, b"b": states(2), b"c": states(3)})
    mine[:] = 0
    np.testing.assert_array_equal(recent.get("x", [b"a"])[b"a"], states(1))
    recent.put("x", {b"d": states(4)})
    recent.put("x", {b"d": states(5)})
    assert set(recent.get("x", [b"a", b"b", b"c", b"d"])) == {b"a", b"c", b"d"}
    np.testing.assert_array_equal(recent.get("x", [b"d"])[b"d"], states(5))
    assert not recent.get("y", [b"a"])
    assert not RecentStates(0).get("x", [b"a"])


def test_a_folder_may_be_text(tmp_path: Path) -> None:
    assert Settings(cache=str(tmp_path)).cache == tmp_path
