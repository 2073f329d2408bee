"""Hugging Face `evaluate`: loaded by path, offline, the numbers of `capmeter.score` bit by bit."""

# ruff: noqa: E402 (what needs the library is imported after the check that it is there)
from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("datasets", reason="needs datasets (pip install 'capmeter[evaluate]')")
evaluate = pytest.importorskip("evaluate", reason="needs evaluate (pip install 'capmeter[evaluate]')")
from support.thousand_captions import METRICS, expected, scores, thousand

import capmeter
from capmeter.core.errors import InputError
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
    result = scorer.compute(metrics=["cider-d(n=3)"], items=True)
    expected_scores = expected("cider-d(n=3)")["cider-d(n=3)"]
    assert result == {"cider-d(n=3)": expected_scores.score, "cider-d(n=3) items": list(expected_scores.items.values())}


def test_a_single_reference_may_be_a_text(load: Any) -> None:
    result = load(PATH, "rouge-l").compute(predictions=["a dog runs", "cats"], references=["a dog runs", "a bus"])
    assert result == {"rouge-l": 0.5}


def test_a_text_among_lists_is_a_list_of_one(load: Any) -> None:
    predictions, references = ["a dog", "a red bus"], [["a dog", "the dog"], "a bus"]
    expected = load(PATH, "bleu-1").compute(predictions=predictions, references=[references[0], ["a bus"]])
    assert load(PATH, "bleu-1").compute(predictions=predictions, references=references) == expected


@pytest.mark.parametrize("wrong", [[float("nan")], [None], [b"a"], [3], (text for text in "a"), {"a": "b"}, None])
def test_values_that_are_not_text_get_a_sentence(load: Any, wrong: Any) -> None:
    for predictions, references in ((wrong, [["a"]]), (["a"], [wrong]), (["a"], wrong)):
        with pytest.raises(InputError):
            load(PATH, "bleu-1").compute(predictions=predictions, references=references)


def test_two_processes_are_brought_together(load: Any) -> None:
    """`evaluate`'s own way: each process has a number, the first one reads what all have written."""
    candidates, references, _ = thousand()
    result: dict[int, Any] = {}

    def process(rank: int) -> None:
        scorer = load(PATH, METRICS, num_process=2, process_id=rank, experiment_id="ours")
        part = slice(500 * rank, 500 * rank + 500)
        scorer.add_batch(predictions=candidates[part], references=references[part])
        result[rank] = scorer.compute()

    other = threading.Thread(target=process, args=(1,))
    other.start()
    process(0)
    other.join()
    assert result == {0: scores(expected()), 1: None}


def test_the_space_folder_is_ready_to_publish(tmp_path: Path) -> None:
    """Its module is loaded as the hub's are, its page names the module, and its front matter has what a space needs."""
    folder = Path(__file__).resolve().parents[2] / "examples" / "evaluate_space"
    code = (
        "import evaluate; scorer = evaluate.load('caption_scores.py', 'bleu-1,rouge-l'); "
        "print(scorer.compute(predictions=['a dog runs', 'cats'], references=[['a dog runs', 'a dog'], ['a bus']]))"
    )
    environment = os.environ | {"HF_EVALUATE_OFFLINE": "1", "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    results = capmeter.score(
        candidates=["a dog runs", "cats"], references=[["a dog runs", "a dog"], ["a bus"]], metrics="bleu-1,rouge-l"
    )
    assert done.stdout.strip() == str(scores(results))
    assert 'evaluate.load("caption_scores.py")' in (folder / "app.py").read_text("utf-8")
    _, front, page = (folder / "README.md").read_text("utf-8").split("---\n", 2)
    assert {"title", "emoji", "sdk", "sdk_version", "app_file", "tags"} <= {
        line.partition(":")[0] for line in front.splitlines()
    }
    assert "- evaluate\n- metric\n" in front and "evaluate.load(" in page
    assert "capmeter[evaluate,meteor]" in (folder / "requirements.txt").read_text("utf-8")


def test_an_unknown_metric_is_named(load: Any) -> None:
    with pytest.raises(InputError, match=r"rogue-l.*rouge-l"):
        load(PATH).compute(predictions=["a dog"], references=[["a dog"]], metrics="rogue-l")
