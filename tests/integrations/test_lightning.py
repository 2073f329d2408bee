"""The example with Lightning: it trains, and what it logs is what capmeter gives."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "lightning_captioner.py"


@pytest.fixture
def example() -> Any:
    pytest.importorskip("lightning", reason="needs lightning (pip install 'capmeter[lightning]')")
    spec = importlib.util.spec_from_file_location("lightning_captioner", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.filterwarnings("ignore")
def test_scores_rise_and_are_those_of_score(example: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    visited: list[Any] = []
    compute = example.CaptionMetric.compute

    def recorded(self: Any) -> Any:
        result = compute(self)
        visited.append((result, self.results))
        return result

    monkeypatch.setattr(example.CaptionMetric, "compute", recorded)
    scores = example.train(epochs=3)
    assert len(scores) == 3 and scores[-1]["cider-d"] > scores[0]["cider-d"] > 1
    for logged, (computed, results) in zip(scores, visited, strict=True):
        assert len(results.ids.names) == 100
        assert results.ids.names[0] == "1000"
        # Lightning logs in float32
        assert logged == pytest.approx({name: float(score) for name, score in computed.items()}, rel=1e-6)
