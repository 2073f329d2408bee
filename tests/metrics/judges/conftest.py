"""The fixture of tests of judges."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.judge_server import KEY


@pytest.fixture
def judging(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A key, and a cache of its own."""
    monkeypatch.setenv("CAPMETER_JUDGE_KEY", KEY)
    for name in ("CAPMETER_JUDGE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL", "CAPMETER_VECTOR_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CAPMETER_CACHE", str(tmp_path / "cache"))
