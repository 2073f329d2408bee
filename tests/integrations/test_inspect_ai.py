"""Inspect: the scorer against its documented interface, and, where it is installed, a task from end to end."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support import inspect_interface
from support.frameworks import COCO_METRICS, expected_scores, framework_python, run_framework, two_hundred

import capmeter
from capmeter.core.errors import InputError

FAST = "bleu-4,rouge-l,cider-d"


@pytest.fixture
def adapter(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The adapter, loaded with the interface that Inspect documents."""
    inspect_interface.install(monkeypatch)
    yield importlib.import_module("capmeter.integrations.inspect_ai")
    sys.modules.pop("capmeter.integrations.inspect_ai")


def score_samples(adapter: Any, rows: list[dict[str, Any]], *arguments: Any, **options: Any) -> Any:
    """What Inspect does: a score for each sample, then the scorer's metric on all."""
    scorer = adapter.captions(*arguments, **options)
    scores = []
    for row in rows:
        state = SimpleNamespace(sample_id=row["image_id"], output=SimpleNamespace(completion=row["candidate"]))
        score = asyncio.run(scorer(state, inspect_interface.Target(row["references"])))
        assert score.answer == row["candidate"]
        scores.append(inspect_interface.SampleScore(score, row["image_id"]))
    (metric,) = adapter.captions.metrics
    return metric(scores)


def test_every_number_is_that_of_score_with_its_interval(adapter: Any) -> None:
    rows = two_hundred()
    values = score_samples(adapter, rows, FAST)
    results = expected_scores(rows, FAST)
    expected = {}
    for name, (low, high) in results.intervals().items():
        expected |= {name: results[name].score, f"{name}_low": low, f"{name}_high": high}
    assert values == expected


def test_epochs_are_candidates_of_one_image(adapter: Any) -> None:
    rows = two_hundred()
    values = score_samples(adapter, [*rows, *rows], ["ROUGE_L"])
    assert values["ROUGE_L"] == pytest.approx(expected_scores(rows, "rouge-l")["rouge-l"].score, abs=1e-12)


def test_references_of_other_images_are_refused(adapter: Any) -> None:
    rows = two_hundred()
    references = [row["references"] for row in rows]
    shifted = [row | {"references": each} for row, each in zip(rows, references[9:] + references[:9], strict=True)]
    with pytest.raises(InputError, match="the references belong to other images"):
        score_samples(adapter, shifted, FAST)
    assert score_samples(adapter, shifted, FAST, on_mismatch="warn")["cider-d"] < 1


def test_mistakes_are_reported_before_or_at_the_sample(adapter: Any) -> None:
    with pytest.raises(InputError, match="rogue"):
        adapter.captions("rogue-l")
    with pytest.raises(InputError, match=r"sample 7: it has no target; expected the list of its references"):
        score_samples(adapter, [{"image_id": 7, "candidate": "a dog", "references": [""]}])
    foreign = inspect_interface.SampleScore(inspect_interface.Score("C"), 7)
    with pytest.raises(InputError, match="expected scores by capmeter's scorer"):
        adapter.caption_scores()([foreign])
    with pytest.raises(InputError, match="of one sample or more"):
        adapter.caption_scores()([])


TASK = """
import json
from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from capmeter.integrations.inspect_ai import captions

rows = {str(row["image_id"]): row for row in map(json.loads, open("rows.jsonl"))}

def answer(messages, tools, choice, config):
    output = ModelOutput.from_content("mockllm/model", rows[messages[-1].text]["candidate"])
    output.usage = ModelUsage()  # else the mock model downloads a tokenizer to count tokens
    return output

samples = [Sample(id=row["image_id"], input=id, target=row["references"]) for id, row in rows.items()]
task = Task(name="coco", dataset=MemoryDataset(samples), scorer=captions("METRICS"))
model = get_model("mockllm/model", custom_outputs=answer)
(log,) = eval(task, model=model, log_dir="logs", log_format="json", display="none")
assert log.status == "success", log.error
"""


@pytest.mark.meteor
@pytest.mark.slow
def test_a_task_runs_from_end_to_end(tmp_path: Path, meteor_index: Path) -> None:
    """The framework's own log, on two hundred captions of its mock model."""
    python = framework_python("inspect-ai", "inspect_ai")
    rows = two_hundred()
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    (tmp_path / "task.py").write_text(TASK.replace("METRICS", COCO_METRICS), "utf-8")
    run_framework(python, "task.py", folder=tmp_path, CAPMETER_CACHE=str(meteor_index))
    (path,) = (tmp_path / "logs").glob("*.json")
    values = json.loads(path.read_text("utf-8"))["results"]["scores"][0]["metrics"]
    results = expected_scores(rows)
    for name, (low, high) in results.intervals().items():
        assert values[name]["value"] == pytest.approx(results[name].score, abs=1e-12)
        assert values[f"{name}_low"]["value"] == pytest.approx(low, abs=1e-12)
        assert values[f"{name}_high"]["value"] == pytest.approx(high, abs=1e-12)
    assert capmeter.score(path, "cider-d")["cider-d"].score == results["cider-d"].score
