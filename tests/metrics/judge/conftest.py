"""What tests of a judge begin with."""

from __future__ import annotations

from pathlib import Path

import pytest
from judgeserver import KEY

from capmeter.metrics.judge import endpoint as endpoints
from capmeter.metrics.judge import judge as judges


@pytest.fixture
def judging(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A key, short pauses, and a store of its own."""
    monkeypatch.setenv("CAPMETER_JUDGE_KEY", KEY)
    monkeypatch.setenv("CAPMETER_JUDGE_TRIES", "3")
    monkeypatch.setattr(endpoints.time, "sleep", lambda seconds: None)
    for name in ("URL", "RATE", "CONCURRENCY", "TIMEOUT", "PRICES", "BUDGET"):
        monkeypatch.delenv(f"CAPMETER_JUDGE_{name}", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("CAPMETER_CACHE", str(tmp_path / "cache"))
    judges._endpoint.cache_clear()
