"""The human level: published sets recomputed, groups, and where there is none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from capmeter.judgments.benchmarks import find_benchmark
from capmeter.judgments.prepared import RatedCaption, RatedPair, prepare_pairs, prepare_points
from capmeter.judgments.protocol import Protocol
from capmeter.meta.agreement import run
from capmeter.meta.human_level import human_level
from capmeter.report.agreement import agreement_notes, agreement_table


def test_experts_of_flickr8k(shared: Path) -> None:
    data = shared / "data/flickr8k_expert.jsonl.gz"
    rows = human_level(find_benchmark("flickr8k-expert").load(data), resamples=300)
    (result, *_) = rows
    assert result.n == 16992
    assert result.value == pytest.approx(55.4, abs=0.05)
    assert 3 < result.high - result.low < 5.5 and result.low < result.value < result.high
    assert result.note.endswith("\nevery two ratings of a caption, both ways round: tau-b 63.0, tau-c 47.9")


def test_the_crowd_of_flickr8k(shared: Path) -> None:
    (result,) = human_level(find_benchmark("flickr8k-cf").load(shared / "data/flickr8k_cf.jsonl.gz"), resamples=20)
    assert result.n == 144_860
    assert result.value == pytest.approx(53.4, abs=0.05) and result.note.count("\n") == 1


def test_votes_of_pascal50s(shared: Path) -> None:
    data = shared / "data/samples/pascal50s.jsonl.gz"
    result, *groups = human_level(find_benchmark("pascal50s").load(data, sample=True), resamples=50)
    values = {row.subset: row.value for row in groups}
    assert values == pytest.approx({"HC": 56.0, "HI": 100.0, "HM": 96.0, "MM": 88.0}) and result.value == 85
    unanimous = "pairs on which all votes agree: 5 of 50 HC, 35 of 50 HI, 30 of 50 HM, 17 of 50 MM"
    assert result.note == f"the majority of the direct votes against the label\n{unanimous}"
    direct, *groups = human_level(find_benchmark("pascal50s").load(data, "pascal-direct", sample=True), resamples=50)
    direct_values = {row.subset: row.value for row in groups}
    assert direct.note.startswith("one vote against the majority of the others")
    assert values["HC"] < direct_values["HC"] < 75 < 90 < direct_values["HI"]


def test_table_notes_and_json_show_it(shared: Path) -> None:
    data = shared / "data/samples/whereimage_humaneval.jsonl.gz"
    report = run("rouge-l", benchmark="whereimage", data=data, sample=True, resamples=50)
    (human,) = report.of("human_level")
    assert human.value > report["rouge-l"].value + 20
    last = agreement_table(report).rows[-1]
    assert last[:3] == ["-", "human", f"{human.value:.1f}"] and last[3].startswith("[")
    assert any(line.startswith("human: one rating against the mean of the others") for line in agreement_notes(report))
    assert report.to_dict()["human_level"]["value"] == human.value


def test_the_protocol_decides_the_coefficient_and_groups() -> None:
    random = np.random.default_rng(1)
    truth = random.normal(size=200)
    rows = [
        RatedCaption(str(k), str(k), "x", ("y",), tuple(truth[k] + random.normal(size=3)), groups={"part": "ab"[k % 2]})
        for k in range(200)
    ]
    # r of one rating and the mean of two more: 1 / sqrt(2 · 1.5)
    (plain,) = human_level(prepare_points("mine", rows, Protocol(name="p", statistic="pearson")), resamples=200)
    assert plain.low < 100 / np.sqrt(3) < plain.high
    parted, *groups = human_level(
        prepare_points("mine", rows, Protocol(name="p", statistic="pearson", by="part")), resamples=50
    )
    assert parted.value == pytest.approx(np.mean([row.value for row in groups]))
    assert {row.subset for row in groups} == {"a", "b"}


def test_no_level_without_two_judgments() -> None:
    single = [RatedCaption(str(k), str(k), "x", ("y",), (k,)) for k in range(4)]
    assert human_level(prepare_points("mine", single, Protocol(name="p"))) == []
    similar = [RatedCaption(str(k), str(k), "x", ("y",), (1, 1)) for k in range(4)]
    assert human_level(prepare_points("mine", similar, Protocol(name="p"))) == []
    unvoted = [RatedPair(str(k), "i", ("a", "b"), (), 1) for k in range(3)]
    assert human_level(prepare_pairs("mine", unvoted, Protocol(name="p", statistic="accuracy"))) == []
