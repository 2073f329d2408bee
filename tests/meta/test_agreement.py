"""From judgments and scores to values, intervals, ranks and differences."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kendalltau

import capmeter
from capmeter.core.assets import missing_install_command
from capmeter.core.checkpoints import Checkpoint, TrainingData, hash_texts
from capmeter.core.errors import InputError, ProtocolError
from capmeter.evaluation.registry import parse, parse_list
from capmeter.judgments.prepared import (
    JudgedSystem,
    Points,
    RatedCaption,
    RatedPair,
    prepare_pairs,
    prepare_points,
    prepare_systems,
)
from capmeter.judgments.protocol import Protocol
from capmeter.meta.agreement import measure_agreement, run, training_rows
from capmeter.report.agreement import agreement_notes
from capmeter.stats.permutation import association_test, williams_test


@pytest.fixture(scope="module")
def rated() -> Points:
    random = np.random.default_rng(0)
    rows = [
        RatedCaption(f"{image}#{k}", str(image), f"caption {k}", ("a",), tuple(random.integers(1, 5, 3).tolist()))
        for image in range(80)
        for k in range(3)
    ]
    return prepare_points("mine", rows, Protocol(name="p", ratings="mean", statistic="tau-b"))


def scores(rated: Points, noise: float, seed: int = 1) -> np.ndarray:
    return rated.human + noise * np.random.default_rng(seed).normal(size=len(rated.human))


def test_value_is_scipys(rated: Points) -> None:
    values = scores(rated, 1.0)
    report = measure_agreement(rated, {"m": values}, resamples=50)
    assert report["m"].value == pytest.approx(100 * kendalltau(rated.human, values).statistic)
    assert report["m"].low < report["m"].value < report["m"].high and report["m"].n == 240


def test_ranks_and_paired_differences(rated: Points) -> None:
    report = measure_agreement(
        rated,
        {"noisy": scores(rated, 3.0), "good": scores(rated, 0.2), "twin": scores(rated, 0.2) + 1, "bad": -rated.human},
        resamples=300,
    )
    assert [each.metric for each in report.results] == ["good", "twin", "noisy", "bad"]
    assert [each.rank for each in report.results] == [1, 1, 2, 3]
    differences = {(row.metric, row.other): row for row in report.of("differences")}
    gap = differences["good", "noisy"]
    assert gap.value == pytest.approx(report["good"].value - report["noisy"].value) and gap.low > 0 and gap.p < 0.01
    assert differences["good", "twin"].p == 1.0
    # paired: the difference is far less uncertain than either value
    assert gap.high - gap.low < 2 * (report["noisy"].high - report["noisy"].low)


def test_constant_scores_have_no_value_but_a_note(rated: Points) -> None:
    report = measure_agreement(rated, {"flat": np.ones(len(rated.human)), "good": scores(rated, 0.1)}, resamples=20)
    assert report["flat"].value is None and "same score" in str(report["flat"].note)
    assert report["good"].rank == 1 and report["flat"].rank is None


def test_one_judgment_has_no_value_but_a_note() -> None:
    rated_rows = prepare_points("mine", [RatedCaption("0", "i", "a dog", ("a dog runs",), (1,))], Protocol(name="p"))
    (found,) = measure_agreement(rated_rows, {"m": np.ones(1)}, resamples=20).results
    assert found.value is None and found.note == "has a score for one caption only; a correlation needs at least two"


def test_systems_that_no_two_files_share(tmp_path) -> None:
    rows = [{"team": name, "M1": wins, "M2": wins, "c5": [], "c40": []} for wins, name in enumerate("ABCD")]
    data = write(tmp_path / "systems.jsonl", rows)
    separate = {"m": {"A": 1.0, "B": 2.0}, "n": {"C": 1.0, "D": 2.0}}
    with pytest.raises(InputError, match="no system with a score by every one of m, n"):
        run(benchmark="coco2015", data=data, protocol="cui2018", scores=separate, sample=True)


def test_systems_differ_by_williams_test() -> None:
    human = np.asarray([0.1, 0.4, 0.35, 0.8, 0.5, 0.9, 0.2, 0.6])
    rows = [JudgedSystem(f"s{k}", value) for k, value in enumerate(human)]
    rated_rows = prepare_systems("mine", rows, Protocol(name="p", statistic="pearson"))
    first, second = human + np.asarray([0.1, 0, -0.1, 0, 0.1, 0, 0, -0.1]), human[[3, 1, 2, 0, 5, 4, 7, 6]]
    report = measure_agreement(rated_rows, {"a": first, "b": second}, resamples=200)
    r = np.corrcoef([human, first, second])
    (difference,) = report.of("differences")
    assert difference.p == pytest.approx(williams_test(r[0, 1], r[0, 2], r[1, 2], 8))
    assert report["a"].p == association_test(human, first)


def test_json(rated: Points) -> None:
    data = measure_agreement(rated, {"m": scores(rated, 1), "flat": np.zeros(240)}, resamples=20).to_dict()
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert {"metric", "value", "low", "high", "n"} <= set(data["results"][0])
    assert data["protocol"].startswith("p(judgments=human,") and data["scale"] == 100
    assert data["results"][1]["value"] is None


def test_pairs_by_category() -> None:
    rows = [
        RatedPair(str(k), str(k), ("a", "b"), (), 1 if k % 3 else -1, groups={"category": "HC" if k < 10 else "MM"})
        for k in range(30)
    ]
    rated_rows = prepare_pairs("mine", rows, Protocol(name="p", statistic="accuracy", by="category", ties="strict"))
    values = np.zeros(60)
    values[rated_rows.first] = np.where(np.arange(30) < 10, rated_rows.better, 0)  # right on HC, tied on MM
    report = measure_agreement(rated_rows, {"m": values}, resamples=50)
    assert report.categories("m") == {"HC": 100.0, "MM": 0.0} and report["m"].value == 50.0
    assert report.find("equal_scores", "m").value == 20
    with pytest.raises(ProtocolError, match="has pairs, for which tau-b is not defined"):
        measure_agreement(prepare_pairs("mine", rows, Protocol(name="p", statistic="tau-b")), {"m": values})


def test_accuracy_needs_pairs(rated: Points) -> None:
    rows = [RatedCaption(str(k), str(k), "x", (), (k,)) for k in range(5)]
    with pytest.raises(ProtocolError, match="use accuracy-eq"):
        measure_agreement(prepare_points("mine", rows, Protocol(name="p", statistic="accuracy")), {"m": np.arange(5.0)})
    report = measure_agreement(
        prepare_points("mine", rows, Protocol(name="p", statistic="accuracy-eq")), {"m": np.arange(5.0)}, resamples=20
    )
    assert report["m"].value == 100.0 and "on 10 pairs; differences of at most 0 count as ties" in str(report["m"].note)


def write(path, rows) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.mark.parametrize("trained", [0, 30, 60, 60_000])
def test_training_on_the_benchmark_is_noted(tmp_path: Path, trained: int) -> None:
    """Small files exactly, large ones by a sample; in other letters and order; also a choice by its judgments."""
    rows = [RatedCaption(str(k), str(k), f"a dog {k}  runs", (f"THE dog {k}",), (k % 5,)) for k in range(3000)]
    judgments = prepare_points("mine", rows, Protocol(name="p", ratings="mean", statistic="tau-b"))
    texts = [f"A dog {k} runs" for k in range(trained)] + [f"another text {k}" for k in range(9)]
    kept = {"kind": "fluency", "parameters": {"bias": 0.0}, "weights": {"weights": np.zeros(3, np.float32)}}
    data = TrainingData("own.jsonl", "0" * 64, len(texts), hash_texts(texts[::-1]))
    Checkpoint(**kept, data=(data,), selection="the best epoch: mine under p(…)").save(tmp_path / "own")
    *training, selection = training_rows(judgments, [parse(f'fer(errors="{tmp_path / "own"}")')])
    expected_shares = {0: [], 30: [0.5], 60: [1.0], 60_000: [50.0]}[trained]
    assert [row.value for row in training] == pytest.approx(expected_shares, rel=0.35)
    assert "chosen by its agreement" in selection.note and all("(own.jsonl)" in row.note for row in training)
    measured = measure_agreement(judgments, {"m": np.arange(3000.0)}, resamples=10).add([*training, selection])
    assert len([line for line in agreement_notes(measured) if "this benchmark" in line]) == len(training) + 1
    assert not training_rows(judgments, parse_list("bleu-1"))


def test_run_on_a_native_file(tmp_path) -> None:
    texts = ["a dog runs on grass", "a dog runs", "a cat sits", "nothing"]
    rows = [
        {"image_id": f"{image}", "candidate": text, "references": ["a dog runs on grass"], "human": [5 - k, 5 - k]}
        for image in range(6)
        for k, text in enumerate(texts)
    ]
    data = write(tmp_path / "rated.jsonl", rows)
    ids = [f"{image}#{k}" for image in range(6) for k in range(4)]
    own_values = {id: -float(id[-1]) for id in ids}
    report = run("rouge-l,bleu-1", benchmark="rated", data=data, scores={"mine": own_values}, resamples=50)
    assert report["mine"].value == pytest.approx(100.0)
    assert report["rouge-l"].value > 90 and "tokenizer" in str(report["rouge-l"].signature)
    assert report["mine"].signature == ""
    assert list(report.judgments.ids) == ids
    with pytest.raises(InputError, match="nothing to evaluate"):
        run(benchmark="rated", data=data)
    with pytest.raises(InputError, match="no score for 1 id,"):
        run(benchmark="rated", data=data, scores={"mine": dict(list(own_values.items())[1:])})
    with pytest.raises(InputError, match="two sets of scores are named rouge-l"):
        run("rouge-l", benchmark="rated", data=data, scores={"rouge-l": own_values})


def test_scores_by_reference_are_averaged(tmp_path) -> None:
    rows = [
        {"image_id": str(k), "candidate": "a dog", "references": ["a dog", f"{k} dogs run"], "human": [k]}
        for k in range(5)
    ]
    data = write(tmp_path / "r.jsonl", rows)
    scores = {f"{k}/{j}": k + 10.0 * j for k in range(5) for j in range(2)}
    protocol = "averaged(references=mean-of-single)"
    report = run("rouge-l", benchmark="rated", data=data, protocol=protocol, scores={"mine": scores}, resamples=20)
    assert report.items["mine"].tolist() == [5.0, 6.0, 7.0, 8.0, 9.0] and report["mine"].value == pytest.approx(100)
    with pytest.raises(InputError, match="no score for 10 ids"):
        run(benchmark="rated", data=data, protocol=protocol, scores={"mine": {str(k): 1.0 for k in range(5)}})


def test_references_that_are_needed_but_missing(tmp_path) -> None:
    rows = [{"image_id": str(k), "candidate": "a dog", "human": [k]} for k in range(4)]
    data = write(tmp_path / "r.jsonl", rows)
    with pytest.raises(ProtocolError, match="no caption has references, but rouge-l need"):
        run("rouge-l", benchmark="rated", data=data)


def test_umic_takes_the_largest_of_single_references_for_bertscore_alone(tmp_path) -> None:
    texts = ["a dog runs on grass", "two cats sleep", "a red ball", "a man rides a horse"]
    rows = [
        {"image_id": str(k), "candidate": text, "references": [texts[k - 1], text + " today", "people"], "human": [k]}
        for k, text in enumerate(texts)
    ]
    data = write(tmp_path / "r.jsonl", rows)
    bert = str(parse("bertscore(encoder=minilm)"))
    if missing_install_command("neural") is not None:
        pytest.skip(f"needs an encoder: {missing_install_command('neural')}")
    single = {
        (k, j): capmeter.score(candidates=[row["candidate"]], references=[[reference]], metrics=[bert, "rouge-l"])
        for k, row in enumerate(rows)
        for j, reference in enumerate(row["references"])
    }
    umic = "averaged(references=mean-of-single, maximum_for=bertscore)"
    report = run(f"{bert},rouge-l", benchmark="rated", data=data, protocol=umic, resamples=10)
    assert "references=mean-of-single,maximum_for=bertscore," in str(report.protocol)
    for k in range(4):
        one = [single[k, j] for j in range(3)]
        assert report.items[bert][k] == pytest.approx(max(each[bert].score for each in one), abs=1e-5)
        assert report.items["rouge-l"][k] == pytest.approx(sum(each["rouge-l"].score for each in one) / 3)
    with pytest.raises(InputError, match="maximum_for=bertscore needs references=mean-of-single"):
        run("rouge-l", benchmark="rated", data=data, protocol="averaged(maximum_for=bertscore)")
