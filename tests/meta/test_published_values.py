"""Values published under a protocol, recomputed from the raw judgments and captions."""

from __future__ import annotations

from pathlib import Path

import pytest

from capmeter.meta.agreement import run
from capmeter.meta.published import published
from capmeter.metrics.availability import availability

METRICS = "bleu-1,bleu-4,rouge-l,cider-d"
# benchmark, protocol, tolerance, values: Hessel et al. 2021, and UMIC's table 1 (Lee et al. 2021)
TABLES = [
    ("flickr8k-expert", "clipscore2021", 0.15, (32.3, 30.8, 32.3, 43.9)),
    ("flickr8k-cf", "clipscore2021", 0.3, (17.9, 16.9, 19.9, 24.6)),
    ("composite", "clipscore2021", 0.3, (31.3, 30.6, 32.4, 37.7)),
    ("flickr8k-expert", "umic", 0.15, (27.4, 28.6, 30.0, 41.9)),
    ("composite", "umic", 0.2, (40.6, 43.9, 41.7, 47.3)),
    ("wmt16", "lceval", 0.3, (33.8, 27.7, 37.4, 32.7)),
]
FILES = {"wmt16": "wmt16_da_segment_to_english"}


@pytest.mark.parametrize(("name", "protocol", "within", "values"), TABLES, ids=[f"{row[0]}-{row[1]}" for row in TABLES])
def test_recomputed(shared: Path, name: str, protocol: str, within: float, values: tuple[float, ...]) -> None:
    file = FILES.get(name, name.replace("-", "_"))
    report = run(METRICS, benchmark=name, data=shared / "data" / f"{file}.jsonl.gz", protocol=protocol, draws=10)
    for metric, value in zip(METRICS.split(","), values, strict=True):
        assert report[metric].value == pytest.approx(value, abs=within), metric
        assert published(name, protocol, metric).value == value


@pytest.mark.slow
@pytest.mark.meteor
@pytest.mark.parametrize(
    ("name", "protocol", "within", "value"),
    [
        ("flickr8k-expert", "clipscore2021", 0.15, 41.8),
        ("flickr8k-expert", "umic", 0.15, 40.3),
        ("composite", "clipscore2021", 0.3, 38.9),
        ("wmt16", "lceval", 0.3, 40.8),
    ],
)
def test_meteor_recomputed(shared: Path, name: str, protocol: str, within: float, value: float) -> None:
    if availability("meteor") is not None:
        pytest.skip(f"needs METEOR's resources: {availability('meteor')}")
    file = FILES.get(name, name.replace("-", "_"))
    report = run("meteor", benchmark=name, data=shared / "data" / f"{file}.jsonl.gz", protocol=protocol, draws=10)
    assert report["meteor"].value == pytest.approx(value, abs=within)
    assert published(name, protocol, "meteor").value == value


def test_interval_and_paired_difference_on_expert(shared: Path) -> None:
    report = run("rouge-l,cider-d", benchmark="flickr8k-expert", data=shared / "data/flickr8k_expert.jsonl.gz")
    cider = report["cider-d"]
    assert (cider.low, cider.high) == (pytest.approx(42.0, abs=0.4), pytest.approx(46.2, abs=0.4))
    gap = report.difference("cider-d", "rouge-l")
    assert (gap.low, gap.high) == (pytest.approx(10.3, abs=0.4), pytest.approx(12.6, abs=0.5))
    assert cider.rank == 1 and report["rouge-l"].rank == 2


def test_challenge_of_2015(shared: Path) -> None:
    report = run(benchmark="coco2015", data=shared / "data/coco2015_challenge_system_level.jsonl.gz", draws=100)
    assert report["spice@c40"].value == pytest.approx(86, abs=0.5) and report["spice@c40"].n == 11
    assert report["meteor@c40"].value == pytest.approx(47, abs=0.5)
    assert report["cider-d@c40"].value == pytest.approx(38, abs=0.5)
    assert report["spice@c40"].p < 0.01 < report["cider-d@c40"].p


def test_a_changed_protocol_has_no_published_value(shared: Path) -> None:
    data = shared / "data/flickr8k_expert.jsonl.gz"
    report = run("bleu-1", benchmark="flickr8k-expert", data=data, protocol="clipscore2021(statistic=tau-b)", draws=10)
    assert report["bleu-1"].published is None
    assert report["bleu-1"].value == pytest.approx(32.18, abs=0.1)
