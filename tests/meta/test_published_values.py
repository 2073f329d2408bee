"""Values published under a protocol, recomputed from the raw judgments and captions."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.research import needs_research
from support.shared_files import read_rows

from capmeter.core.assets import missing_install_command
from capmeter.evaluation.registry import parse
from capmeter.judgments.benchmarks import find_benchmark
from capmeter.meta.agreement import run
from capmeter.meta.published import library_tables, published, read_tables
from capmeter.report.agreement import agreement_figure, agreement_table

pytestmark = needs_research  # which has the papers' metrics and values
FILES = {"wmt16": "wmt16_da_segment_to_english"}
SEALED = {"pascal50s", "capeval1k"}  # samples alone are at hand


def reproduced() -> list[tuple[str, str, list[str], list[float], list[float], float]]:
    """Rows of the table in docs/benchmarks.md: benchmark, protocol, metrics, our and published values, difference."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    section = page.partition("## Which published numbers are reproduced")[2].partition("## What is not")[0]
    rows = []
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 7 and cells[3][:1].isdigit():
            here, published_values = ([float(each) for each in cells[k].split()] for k in (3, 4))
            rows.append((cells[0], cells[1], cells[2].split(), here, published_values, float(cells[6])))
    return rows


REPRODUCED = reproduced()
EXTERNAL = {"leic-no-da", "fleur", "expert", "polos", "aloha"}  # which capmeter does not compute
NEEDS_MORE = {"meteor", "spice", "spider", "wmd", "lceval"}


def test_the_page_lists_the_published_values_and_the_largest_difference() -> None:
    assert len(REPRODUCED) > 15
    for benchmark, protocol, metrics, here, values, difference in REPRODUCED:
        assert len(metrics) == len(here) == len(values), (benchmark, protocol)
        assert difference == pytest.approx(max(abs(a - b) for a, b in zip(here, values, strict=True)), abs=0.051)
        assert difference <= 2
        if protocol != "pascal-direct":  # a study of capmeter-research
            assert [published(benchmark, protocol, metric).value for metric in metrics] == values


@pytest.mark.parametrize(
    ("benchmark", "protocol", "metrics", "here"),
    [
        pytest.param(
            *row[:4],
            marks=[pytest.mark.slow, pytest.mark.meteor] if NEEDS_MORE & set(row[2]) else [],
            id=f"{row[0]}-{row[1]}-{row[2][0]}",
        )
        for row in REPRODUCED
        if row[0] not in SEALED
    ],
)
def test_recomputed(shared: Path, benchmark: str, protocol: str, metrics: list[str], here: list[float]) -> None:
    """The values of the page, from the raw judgments."""
    if "meteor" in metrics and missing_install_command("meteor") is not None:
        pytest.skip(f"needs METEOR's resources: {missing_install_command('meteor')}")
    file = FILES.get(benchmark, benchmark.replace("-", "_"))
    data = shared / "data" / f"{file}.jsonl.gz"
    report = run(",".join(metrics), benchmark=benchmark, data=data, protocol=protocol, resamples=10)
    assert [report[metric].value for metric in metrics] == pytest.approx(here, abs=0.051)


def test_interval_and_paired_difference_on_expert(shared: Path) -> None:
    data = shared / "data/flickr8k_expert.jsonl.gz"
    report = run("rouge-l,cider-d", benchmark="flickr8k-expert", data=data, resamples=300)
    cider = report["cider-d"]
    assert (cider.low, cider.high) == (pytest.approx(42.0, abs=0.4), pytest.approx(46.2, abs=0.4))
    (gap,) = report.of("differences")
    assert (gap.low, gap.high) == (pytest.approx(10.3, abs=0.4), pytest.approx(12.6, abs=0.5))
    assert cider.rank == 1 and report["rouge-l"].rank == 2


def test_challenge_of_2015(shared: Path) -> None:
    report = run(benchmark="coco2015", data=shared / "data/coco2015_challenge_system_level.jsonl.gz", resamples=100)
    assert report["spice@c40"].value == pytest.approx(86, abs=0.5) and report["spice@c40"].n == 11
    assert report["meteor@c40"].value == pytest.approx(47, abs=0.5)
    assert report["cider-d@c40"].value == pytest.approx(38, abs=0.5)
    assert report["spice@c40"].p < 0.01 < report["cider-d@c40"].p


def test_a_changed_protocol_has_no_published_value(shared: Path) -> None:
    data = shared / "data/flickr8k_expert.jsonl.gz"
    report = run(
        "bleu-1", benchmark="flickr8k-expert", data=data, protocol="clipscore2021(statistic=tau-b)", resamples=10
    )
    assert report.of("published") == []
    assert report["bleu-1"].value == pytest.approx(32.18, abs=0.1)


def test_a_value_made_with_another_encoder_is_said_to_be_so() -> None:
    by_default = published("flickr8k-expert", "clipscore2021", "bertscore")
    assert (by_default.value, by_default.made_with, by_default.agrees) == (39.2, "roberta", False)
    same = published("flickr8k-expert", "clipscore2021", "bertscore(encoder=roberta)")
    assert (same.value, same.agrees) == (39.2, True)
    # two encoders in one table: the score's own comes first
    assert published("coco2015", "yi2020", "tbr(encoder=roberta)").value == 93.2
    assert published("coco2015", "yi2020", "tbr(encoder=bert)").value == 87.5
    assert not published("coco2015", "yi2020", "tbr").agrees
    # another parameter than the encoder's is another metric
    assert published("coco2015", "yi2020", "tbr(encoder=bert,remove=false)").value == 86.7
    assert published("coco2015", "yi2020", "tbr(encoder=bert,beta=0.5)") is None
    assert published("capeval1k", "umic", "bertscore(encoder=roberta)").made_with == "not stated"
    assert not published("capeval1k", "umic", "bertscore(encoder=roberta)").agrees
    vectors = published("coco2015", "cui2018", "wembsim(vectors=/data/wiki.en.vec)")
    assert (vectors.value, vectors.agrees) == (83.4, True)
    assert not published("coco2015", "cui2018", "wembsim").agrees
    plain = published("flickr8k-expert", "clipscore2021", "cider-d")
    assert plain.agrees and plain.made_with == ""
    assert published("flickr8k-expert", "clipscore2021", "polos").agrees  # from a file of scores


def test_tables_and_plots_keep_other_encoders_apart(shared: Path) -> None:
    pytest.importorskip("matplotlib")
    data = shared / "data/flickr8k_expert.jsonl.gz"
    ids = find_benchmark("flickr8k-expert").load(data).ids
    scores = {"bertscore": {id: k % 7 for k, id in enumerate(ids)}, "polos": {id: k % 5 for k, id in enumerate(ids)}}
    report = run(benchmark="flickr8k-expert", data=data, scores=scores, resamples=10)
    display = {row[1]: row[-1] for row in agreement_table(report).rows}
    assert display["bertscore"] == "other encoder: 39.2 (roberta, Hessel et al. 2021)"
    assert display["polos"] == "56.4 (Wada et al. 2024)"
    axis = agreement_figure(report).axes[0]
    diamonds = [line.get_xdata()[0] for line in axis.lines if line.get_marker() == "D"]
    assert diamonds == [56.4]
    (bert,) = report.to_dict()["published_otherwise"]
    assert bert["metric"] == "bertscore" and bert["source"] == "roberta, Hessel et al. 2021"


def test_distractions_by_category_and_averages_that_are_not_means() -> None:
    """Sharif et al. 2019, Table 7.9: six averages are not the mean of their columns."""
    found = published("distractions", "lceval", "bleu-4")
    assert found.groups["just-person"] == 54.9 and len(found.groups) == 6
    assert found.note.startswith("the mean of the published columns is 74.93, not 72.1; 72.1 is the mean of the four")
    means = {
        "bleu-4": 74.93,
        "cider-d": 87.82,
        "spice": 84.57,
        "meteor": 88.82,
        "rouge-l": 84.25,
        "lceval(features=sem-lex)": 90.55,
    }
    for name, mean in means.items():
        assert f"{mean:.2f}" in published("distractions", "lceval", name).note, name
    for name in ("bleu-1", "spider", "wmd", "nneval", "lceval"):
        assert published("distractions", "lceval", name).note == "", name


@pytest.mark.parametrize(
    ("name", "protocol", "metric", "value"),
    [
        ("coco2015", "cui2018", "leic-no-da", 82.1),
        ("coco2015", "cui2018-m2", "leic-no-da", 80.7),
        ("coco2015", "cui2018-m4", "leic", 62.6),
        ("coco2015", "yi2020-m2", "rouge-l(references=cat)", 18.0),
        ("coco2015", "smurf2021-m2", "smurf", 99.3),
        ("capeval1k", "umic", "umic-c", 29.9),
        ("composite", "umic", "vifidel", 19.1),
        ("flickr8k-expert", "yi2020", "tbr-unigram(as_released=true)", 47.1),
        ("coco2015", "yi2020", "tbr(encoder=bert,combine=false,remove=false,references=max)", 82.2),
        ("coco2015", "yi2020-m2", "tbr(encoder=bert,references=cat)", 78.3),
        ("distractions", "lceval", "lceval(features=sem-lex)", 90.7),
    ],
)
def test_values_of_the_papers(name: str, protocol: str, metric: str, value: float) -> None:
    found = published(name, protocol, metric)
    assert found.value == value and found.agrees
    assert protocol in find_benchmark(name).protocols


@pytest.mark.parametrize(
    ("protocol", "metric", "value", "note"),
    [
        ("cui2018", "leic", 93.9, "p 0.000"),
        ("cui2018", "spice", 75.9, "p 0.003"),
        ("cui2018-m2", "meteor", 59.4, "p 0.032"),
        ("cui2018-m3", "bleu-1", 54.9, "p 0.052"),
        ("cui2018-m4", "leic-no-da", 84.4, "p 0.000"),
        ("cui2018-m4", "leic", 62.6, "p 0.026"),
        ("cui2018-m5", "cider-d", 55.9, "p 0.047"),
    ],
)
def test_p_values_of_the_critics_tables(protocol: str, metric: str, value: float, note: str) -> None:
    """Cui et al. 2018, Tables 2 and 3."""
    found = published("coco2015", protocol, metric)
    assert found.value == value and found.note.partition(";")[0] == note


@pytest.mark.parametrize(
    ("name", "protocol", "metric", "value", "encoder"),
    [
        ("pascal50s", "wembsim", "wembsim(vectors=wiki.en.vec)", 79.5, "fasttext"),  # Table 8.3: 60.9 and 98.1
        ("distractions", "lceval", "wembsim(vectors=glove.840B.300d.txt)", 94.2, "glove"),
    ],
)
def test_values_with_their_vectors(name: str, protocol: str, metric: str, value: float, encoder: str) -> None:
    found = published(name, protocol, metric)
    assert (found.value, found.made_with) == (value, encoder)


def test_contextual_vectors_are_not_the_papers_word_vectors() -> None:
    found = published("coco2015", "cui2018", "wembsim(encoder=minilm)")
    assert not found.agrees
    assert published("coco2015", "cui2018", "wembsim(encoder=elmo)").value == 47
    assert published("coco2015", "cui2018", "wembsim(encoder=minilm,layer=2)") is None


def test_every_row_is_a_metric() -> None:
    """A row under another spelling than `parse` prints, or of a metric that there is not, can never be printed."""
    for key, tables in library_tables().items():
        for table in tables:
            for row in table["rows"]:
                name = row.partition("@")[0]
                assert name in EXTERNAL or str(parse(name)) == name, (key, row)


def test_a_value_of_vilbert_is_printed_as_one_of_another_encoder() -> None:
    found = published("flickr8k-expert", "umic", "vilbertscore")
    assert (found.value, found.made_with, found.agrees) == (52.5, "vilbert", False)


def test_two_papers_with_different_values_are_both_named() -> None:
    found = published("coco2015", "cui2018", "cider-d")
    assert (found.value, found.source) == (43.8, "Cui et al. 2018")
    assert "Sharif et al. 2019 has 47 (p 0.130; differs from Cui et al. 2018" in found.note
    assert published("coco2015", "cui2018", "wembsim(vectors=wiki.en.vec)").note == "p 0.000"
    assert "Table 2 has 30.7" in published("coco2015", "yi2020", "bleu-1").note


@pytest.mark.parametrize("protocol", ["yi2020", "umic", "wembsim"])
def test_pascal_protocols_of_the_papers_judge_by_direct_votes(shared: Path, protocol: str) -> None:
    """Where votes and consensus label disagree, the votes decide: a metric that says what the votes say is right."""
    data = shared / "data/samples/pascal50s.jsonl.gz"
    pairs = find_benchmark("pascal50s").load(data, protocol, sample=True)
    rows = read_rows(data)
    if protocol == "wembsim":
        rows = [row for row in rows if row["category"] in ("HC", "HI")]
    votes = np.sign([sum(row["human"]) for row in rows])
    labels = np.array([{"a": 1, "b": -1}[row["consensus_winner"]] for row in rows])
    assert (votes != labels).sum() > 10
    assert np.sign(pairs.better).tolist() == votes.tolist()


def test_every_table_belongs_to_a_protocol_that_there_is() -> None:
    """Its rows are numbers, and its notes are on rows that it has."""
    for key, tables in library_tables().items():
        name, protocol = key.split("/")
        assert protocol in find_benchmark(name).protocols, key
        for table in tables:
            assert all(isinstance(each, int | float) for row in table["rows"].values() for each in row.values()), key
            assert (
                all("value" in row for row in table["rows"].values()) and table["notes"].keys() <= table["rows"].keys()
            ), key


TABLE = {"columns": ["value", "p"], "rows": {"bleu-1": [30.0, None]}, "notes": {"bleu-1": "approximate"}}


def test_tables_of_a_folder(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.json").write_text(json.dumps({"source": name.upper(), "tables": {"t/p": TABLE}}))
    tables = read_tables(tmp_path)
    assert [table["source"] for table in tables["t/p"]] == ["A", "B"] and tables["t/p"][0]["rows"] == {
        "bleu-1": {"value": 30}
    }


@pytest.mark.parametrize(
    "metric", ['regressor(checkpoint="head/")', 'regressor(checkpoint="head/",encoder="clip")', "clair(model=some)"]
)
def test_a_metric_that_cannot_be_without_parameters_has_none(metric: str) -> None:
    assert published("flickr8k-expert", "clipscore2021", metric) is None
