"""Hugging Face `evaluate`: loaded by path, offline, the numbers of `capmeter.score` bit by bit."""

# ruff: noqa: E402 (what needs the library is imported after the check that it is there)
from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("datasets", reason="needs datasets (pip install 'capmeter[evaluate]')")
evaluate = pytest.importorskip("evaluate", reason="needs evaluate (pip install 'capmeter[evaluate]')")
from thousand import METRICS, expected, scores, thousand

from capmeter.errors import InputError
from capmeter.integrations.evaluate import PATH


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`evaluate.load` with its caches in a folder of the test, and no network."""
    monkeypatch.setattr(evaluate.config, "HF_EVALUATE_OFFLINE", True)
    monkeypatch.setattr(evaluate.config, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    return lambda *arguments, **options: evaluate.load(*arguments, cache_dir=str(tmp_path / "cache"), **options)


def test_a_thousand_captions_are_scored_as_by_score(load: Any) -> None:
    candidates, references, _ = thousand()
    scorer = load(PATH, METRICS)
    assert scorer.compute(predictions=candidates, references=references) == scores(expected())


def test_batches_items_and_another_metric(load: Any) -> None:
    candidates, references, _ = thousand()
    scorer = load(PATH)
    for start in range(0, 1000, 90):
        scorer.add_batch(predictions=candidates[start : start + 90], references=references[start : start + 90])
    found = scorer.compute(metrics=["cider-d(n=3)"], items=True)
    whole = expected("cider-d(n=3)")["cider-d(n=3)"]
    assert found == {"cider-d(n=3)": whole.score, "cider-d(n=3) items": list(whole.items.values())}


def test_a_single_reference_may_be_a_text(load: Any) -> None:
    found = load(PATH, "rouge-l").compute(predictions=["a dog runs", "cats"], references=["a dog runs", "a bus"])
    assert found == {"rouge-l": 0.5}


def test_two_processes_are_brought_together(load: Any) -> None:
    """`evaluate`'s own way: each process has a number, the first one reads what all have written."""
    candidates, references, _ = thousand()
    found: dict[int, Any] = {}

    def process(rank: int) -> None:
        scorer = load(PATH, METRICS, num_process=2, process_id=rank, experiment_id="ours")
        part = slice(500 * rank, 500 * rank + 500)
        scorer.add_batch(predictions=candidates[part], references=references[part])
        found[rank] = scorer.compute()

    other = threading.Thread(target=process, args=(1,))
    other.start()
    process(0)
    other.join()
    assert found == {0: scores(expected()), 1: None}


def test_an_unknown_metric_is_named(load: Any) -> None:
    with pytest.raises(InputError, match=r"rogue-l.*rouge-l"):
        load(PATH).compute(predictions=["a dog"], references=[["a dog"]], metrics="rogue-l")
