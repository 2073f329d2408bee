"""Agreement as tables, files and figures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from capmeter.core.errors import InputError
from capmeter.judgments.prepared import (
    JudgedSystem,
    RatedCaption,
    RatedPair,
    prepare_pairs,
    prepare_points,
    prepare_systems,
)
from capmeter.judgments.protocol import Protocol
from capmeter.meta.agreement import AgreementTable, measure_agreement
from capmeter.report.agreement import agreement_notes, agreement_table, difference_table, write_captions, write_items


def rated() -> AgreementTable:
    random = np.random.default_rng(0)
    rows = [RatedCaption(str(k), str(k), f"text {k}", ("r",), (k % 4 + 1, 1 + k % 3)) for k in range(60)]
    judgments = prepare_points("mine", rows, Protocol(name="p", statistic="tau-c"))
    base = np.arange(60) % 4
    scores = {"good": base + 0.3 * random.normal(size=60), "weak": base + 4.0 * random.normal(size=60)}
    return measure_agreement(judgments, {**scores, "flat": np.zeros(60)}, resamples=100)


def paired() -> AgreementTable:
    rows = [
        RatedPair(str(k), str(k), ("a", "b"), (), 1, groups={"category": "MM" if k % 2 else "HC"}) for k in range(20)
    ]
    judgments = prepare_pairs("mine", rows, Protocol(name="p", statistic="accuracy", by="category"))
    values = np.random.default_rng(0).normal(size=40)
    values[:4] = 0
    return measure_agreement(judgments, {"m": values}, resamples=50)


def ranked() -> AgreementTable:
    judgments = prepare_systems(
        "mine", [JudgedSystem(f"s{k}", k / 9) for k in range(6)], Protocol(name="p", statistic="pearson")
    )
    return measure_agreement(
        judgments, {"m": np.asarray([1.0, 2, 2.5, 4, 3, 6]), "n": np.asarray([3.0, 1, 2, 6, 5, 4])}, resamples=50
    )


def test_table_of_ratings() -> None:
    report = rated()
    table = agreement_table(report)
    assert table.title == "mine: 120 judgments of 60 images"
    assert list(table.columns) == ["rank", "metric", "tau-c", "95% interval"]
    assert [row[:2] for row in table.rows] == [["1", "good"], ["2", "weak"], ["-", "flat"]]
    assert table.rows[0][2] == f"{report['good'].value:.1f}" and table.rows[2][2:] == ["-", "-"]
    notes = agreement_notes(report)
    assert notes[0] == f"protocol: {report.protocol}" and notes[-1].startswith(
        "flat gives every caption the same score"
    )
    assert difference_table(report).rows[0][:2] == ["good", "weak"]


def test_one_judgment_pairs_and_systems() -> None:
    rows = [RatedCaption("1", "1", "a dog", ("a dog runs",), (1,))]
    judgments = prepare_points("mine", rows, Protocol(name="p", statistic="tau-b"))
    report = measure_agreement(judgments, {"m": np.ones(1)}, resamples=10)
    assert agreement_table(report).title == "mine: 1 judgment of 1 image"
    table = agreement_table(paired())
    assert list(table.columns)[4:] == ["HC", "MM", "equal scores"] and table.rows[0][-1] == "2"
    table = agreement_table(ranked())
    assert table.title == "mine: 6 systems" and list(table.columns)[-1] == "p"


def test_items(tmp_path: Path) -> None:
    write_items(rated(), tmp_path / "x.jsonl")
    first = json.loads((tmp_path / "x.jsonl").read_text().splitlines()[0])
    assert first["id"] == "0" and first["human"] == [1.0, 1.0] and set(first) == {"id", "human", "good", "weak", "flat"}
    write_items(paired(), tmp_path / "x.csv")
    lines = (tmp_path / "x.csv").read_text().splitlines()
    assert lines[:3] == ["id,human,m", "0/a,1.0,0.0", "0/b,-1.0,0.0"]
    write_items(ranked(), tmp_path / "x.tsv")
    assert (tmp_path / "x.tsv").read_text().splitlines()[1] == "s0\t0.0\t1.0\t3.0"
    with pytest.raises(InputError, match=r"ends in \.parquet, \.csv, \.tsv or \.jsonl"):
        write_items(rated(), tmp_path / "x.txt")


def test_captions_with_their_ids(tmp_path: Path) -> None:
    write_captions(rated().judgments, tmp_path / "c.jsonl")
    lines = (tmp_path / "c.jsonl").read_text().splitlines()
    assert len(lines) == 60
    assert json.loads(lines[3]) == {"id": "3", "image_id": "3", "candidate": "text 3", "references": ["r"]}
    with pytest.raises(InputError, match="only systems: s0, s1"):
        write_captions(ranked().judgments, tmp_path / "c.jsonl")


@pytest.mark.parametrize("make", [rated, paired, ranked])
def test_figures_show_every_metric(make, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from capmeter.report.agreement import agreement_figure, distribution_figure
    from capmeter.report.figures import save_figures

    report = make()
    valued = [each.metric for each in report.results if each.value is not None]
    figure = agreement_figure(report)
    labels = [text.get_text().split()[0] for text in figure.axes[0].get_yticklabels()]
    assert labels == valued
    panels = [axis.get_title(loc="left") for axis in distribution_figure(report).axes if axis.get_visible()]
    assert panels == valued
    assert save_figures(figure, [tmp_path / "a.png"])[0].stat().st_size > 5000
