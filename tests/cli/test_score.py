"""`capmeter score`: tables, files, options and mistakes."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path

import pyarrow.parquet
import pytest

REFERENCES = {"1": ["a dog runs on the grass", "the dog is running"], "2": ["two cats sleep", "cats sleeping"]}
GOOD = {"1": ["a dog runs on the grass"], "2": ["two cats sleep on a sofa"]}
BAD = {"1": ["a cat"], "2": [""]}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Path:
    for name, content in (("references", REFERENCES), ("good", GOOD), ("bad", BAD)):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    return tmp_path


def test_one_system_into_one_table(run) -> None:
    ran = run("score", "good.json", "--references", "references.json", "--metrics", "bleu-1,rouge-l")
    assert ran.code == 0
    assert "2 captions of 2 images" in ran.out
    assert [line.split()[0] for line in ran.out.splitlines() if line.strip().startswith(("bleu", "rouge"))] == [
        "bleu-1",
        "rouge-l",
    ]
    assert "0.7500" in ran.out  # 9 of 12 unigrams, and no brevity
    assert "signature: bleu-1|tokenizer:ptb-3.4.1-caption|" in ran.err
    assert "signature" not in ran.out


def test_several_systems_are_the_rows_of_one_table(run) -> None:
    ran = run("score", "A=good.json", "B=bad.json", "-r", "references.json", "-m", "rouge-l", "--no-intervals")
    assert [line.split()[0] for line in ran.out.splitlines() if line.startswith(("  A", "  B"))] == ["A", "B"]
    assert "note: B: empty candidate: caption 2\n" in ran.err


def test_many_metrics_of_few_systems_are_rows(run) -> None:
    ran = run("score", "A=good.json", "B=bad.json", "-r", "references.json", "-m", "bleu-1,bleu-2,rouge-l")
    lines = [line.split()[0] for line in ran.out.splitlines() if line.startswith("  ") and line.strip()]
    assert lines == ["metric", "bleu-1", "bleu-2", "rouge-l"]


def test_json_has_scores_intervals_and_signatures(run) -> None:
    ran = run("score", "good.json", "-r", "references.json", "-m", "rouge-l", "--format", "json")
    saved = json.loads(ran.out)["systems"]["good"]["metrics"]["rouge-l"]
    assert saved["low"] <= saved["score"] <= saved["high"]
    assert saved["signature"].startswith("rouge-l|beta:1.2|")


def test_csv_has_a_row_per_system_and_metric_in_full_precision(run) -> None:
    ran = run("score", "A=good.json", "B=bad.json", "-r", "references.json", "-m", "rouge-l,bleu-1", "-f", "csv")
    rows = list(csv.DictReader(io.StringIO(ran.out)))
    assert [(row["system"], row["metric"]) for row in rows] == [
        ("A", "rouge-l"),
        ("A", "bleu-1"),
        ("B", "rouge-l"),
        ("B", "bleu-1"),
    ]
    assert float(rows[1]["score"]) == pytest.approx(0.75, abs=1e-9)
    assert float(rows[1]["score"]) != 0.75  # the standard code's small constants are kept


def test_latex_escapes_names(run, folder: Path) -> None:
    (folder / "a_b.json").write_text(json.dumps(GOOD))
    ran = run("score", "a_b.json", "good.json", "-r", "references.json", "-m", "rouge-l", "-f", "latex")
    assert r"a\_b & " in ran.out
    assert ran.out.count(r"\\") == 3


def test_output_holds_every_caption_by_id(run, folder: Path) -> None:
    ran = run("score", "bad.json", "-r", "references.json", "-m", "rouge-l,cider-d", "-o", "scores.json")
    assert ran.code == 0
    saved = json.loads((folder / "scores.json").read_text())["systems"]["bad"]
    assert saved["metrics"]["rouge-l"]["items"] == {"1": pytest.approx(2.44 / 12 / (1 / 6 + 1.44 / 2)), "2": 0.0}
    assert saved["metrics"]["rouge-l"]["notes"] == {"empty candidate": ["2"]}


@pytest.mark.parametrize("name", ["rows.csv", "rows.tsv", "rows.jsonl", "rows.parquet", "rows.csv.gz"])
def test_one_row_per_caption(run, folder: Path, name: str) -> None:
    assert (
        run("score", "good.json", "bad.json", "-r", "references.json", "-m", "rouge-l", "--per-caption", name).code == 0
    )
    if name == "rows.parquet":
        rows = pyarrow.parquet.read_table(folder / name).to_pylist()
    else:
        data = (folder / name).read_bytes()
        text = (gzip.decompress(data) if name.endswith(".gz") else data).decode()
        kind = "\t" if name.endswith(".tsv") else ","
        rows = (
            [json.loads(line) for line in text.splitlines()]
            if name.endswith(".jsonl")
            else list(csv.DictReader(io.StringIO(text), delimiter=kind))
        )
    assert [(row["system"], row["id"], row["image_id"]) for row in rows] == [
        ("good", "1", "1"),
        ("good", "2", "2"),
        ("bad", "1", "1"),
        ("bad", "2", "2"),
    ]
    assert float(rows[0]["rouge-l"]) == 1.0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["good.json", "-r", "nosuch.json"], 1, "nosuch.json: there is no such file"),
        (["ours=", "-r", "references.json"], 1, "'ours=': no file is named; expected FILE or NAME=FILE"),
        (["good.json", "-r", ""], 1, "a file's name is empty"),
        (["good.json"], 1, "references"),
        (["good.json", "-r", "references.json", "-m", "blue-4"], 2, "did you mean bleu-4"),
        (["good.json", "-r", "references.json", "-f", "html"], 2, "is not one of table, json, csv, latex"),
        (["good.json", "-r", "references.json", "--per-caption", "x.xls"], 1, "expected a name that ends in"),
        (["good.json", "good.json", "-r", "references.json"], 1, "two systems have the name 'good'"),
        (["good.json", "-r", "references.json", "-o", "no/folder.json"], 1, "no folder"),
        ([], 2, "Missing argument"),
    ],
)
def test_mistakes_get_a_sentence_and_a_code(run, arguments: list[str], code: int, message: str) -> None:
    ran = run("score", *arguments)
    assert ran.code == code
    assert message in " ".join(ran.err.replace("│", " ").split())
    assert "Traceback" not in ran.err
    assert ran.out == ""


def test_missing_meteor_ends_with_code_3_and_the_command(run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CAPMETER_METEOR", raising=False)
    monkeypatch.setattr("capmeter.core.assets.package_folder", lambda *inner: None)
    end = run("score", "good.json", "-r", "references.json", "-m", "meteor")
    assert end.code == 3
    assert "pip install 'capmeter[meteor]'" in end.err.replace("\n", " ")


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--output", "nowhere/s.json"), 1, "there is no folder nowhere"),
        (("--output", "good.json/s.json"), 1, "one of its parents is a file"),
        (("--output", "."), 1, "it is a folder"),
        (("--per-caption", "nowhere/s.csv"), 1, "there is no folder nowhere"),
        (("--per-caption", "s.txt"), 1, "ends in .parquet, .csv, .tsv or .jsonl"),
        (("--output", "s.jsonl", "--per-caption", "s.jsonl"), 2, "--per-caption"),
        (("--seed", "-1"), 2, "--seed"),
    ],
)
def test_a_wrong_option_is_told_before_the_work(run, monkeypatch: pytest.MonkeyPatch, options, code, said) -> None:
    monkeypatch.setattr("capmeter.cli.score.evaluate", lambda *_, **__: pytest.fail("scored first"))
    ran = run("score", "good.json", "-r", "references.json", *options)
    assert (ran.code, said in " ".join(ran.err.split())) == (code, True)


def test_a_score_below_the_minimum_fails_a_check(run) -> None:
    inputs = ("score", "good.json", "bad.json", "-r", "references.json", "-m", "bleu-1,rouge-l", "--resamples", "20")
    low = run(*inputs, "--minimum", "bleu-1=0.7", "--minimum", "rouge-l=0.3")
    assert low.code == 4
    (line,) = [line for line in low.err.splitlines() if "failed" in line]
    assert line.startswith("capmeter: failed: bad: bleu-1 is ") and "below 0.7; bad: rouge-l is " in line
    assert "good" not in line and "0.7500" in low.out
    assert run("score", "good.json", "-r", "references.json", "-m", "bleu-1", "--minimum", "bleu-1=0.75").code == 0
    for wrong, why in (("cider=1", "not among the --metrics"), ("bleu-1", "such as cider-d=1.2"), ("bleu-1=nan", "")):
        refused = run(*inputs, "--minimum", wrong)
        assert refused.code == 2 and why in " ".join(refused.err.replace("│", "").split())


def test_scores_times_a_hundred_in_tables_alone(run) -> None:
    inputs = ("score", "good.json", "-r", "references.json", "-m", "bleu-1", "--scale", "100")
    assert "75.00 [" in run(*inputs).out.replace("   ", " ") and "scores x 100" in run(*inputs, "-f", "latex").out
    assert "BLEU-1 $\\uparrow$ & 75.0 \\\\" in run(*inputs, "-f", "latex", "--no-intervals", "--digits", "1").out
    (result,) = json.loads(run(*inputs, "-f", "json").out)["systems"].values()
    assert result["metrics"]["bleu-1"]["score"] == pytest.approx(0.75)


def test_systems_of_other_references_are_not_marked(run, folder: Path) -> None:
    texts = [f"a dog number {k} runs" for k in range(20)]
    for name, inputs in (("sa", ["a dog runs fast", "some dog is running"]), ("sb", ["an animal"])):
        rows = [
            {"image_id": str(k), "candidate": text, "references": [text, *inputs] if name == "sa" else inputs}
            for k, text in enumerate(texts)
        ]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ran = run("score", "sa.jsonl", "sb.jsonl", "-m", "bleu-1,rouge-l", "--resamples", "50")
    assert ran.code == 0 and "*" not in ran.out
    assert "sa and sb were scored against different references, so their differences were not tested" in ran.out


def test_rows_per_caption_have_the_texts_on_request(run, folder: Path) -> None:
    inputs = ("score", "bad.json", "-r", "references.json", "-m", "rouge-l", "--no-intervals")
    assert run(*inputs, "--per-caption", "rows.csv", "--texts").code == 0
    with (folder / "rows.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["candidate"] for row in rows] == ["a cat", ""]
    assert json.loads(rows[1]["references"]) == REFERENCES["2"]
    assert run(*inputs, "--per-caption", "rows.jsonl", "--texts").code == 0
    first = json.loads((folder / "rows.jsonl").read_text().splitlines()[0])
    assert first["references"] == REFERENCES["1"]
    assert run(*inputs, "--texts").code == 2


def test_references_and_metrics_given_twice_add_up(run, folder: Path) -> None:
    for k, name in enumerate(("first", "second")):
        (folder / f"{name}.json").write_text(json.dumps({image: [texts[k]] for image, texts in REFERENCES.items()}))
    metrics = ("-m", "bleu-1", "-m", "rouge-l,cider-d", "--no-intervals", "-f", "json")
    separate = run("score", "good.json", "-r", "first.json", "-r", "second.json", *metrics)
    together = run("score", "good.json", "-r", "references.json", *metrics)
    assert separate.out == together.out and list(json.loads(separate.out)["systems"]["good"]["metrics"]) == [
        "bleu-1",
        "rouge-l",
        "cider-d",
    ]


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("--seed", "1", "--seed", "2"), "--seed"),
        (("-o", "a.json", "--output", "b.json"), "--output"),
        (("--no-intervals", "--intervals"), "--intervals"),
        (("--system", "a", "--system", "b"), "--system"),
    ],
)
def test_an_option_with_one_value_is_given_once(run, arguments: tuple[str, ...], name: str) -> None:
    ran = run("score", "good.json", "-r", "references.json", *arguments)
    assert ran.code == 2 and name in ran.err and "given twice" in " ".join(ran.err.split())


def test_no_file_is_written_over_another(run, folder: Path) -> None:
    (folder / "link.csv").symlink_to("both.json")
    (folder / "in.json").symlink_to("good.json")
    score = ("score", "ours=good.json", "-r", "references.json", "--no-intervals")
    for outputs in (
        ("-o", "both.json", "--per-caption", "link.csv"),
        ("-o", "both.csv", "--per-caption", "./both.csv"),
        ("-o", "good.json"),
        ("-o", "in.json"),
        ("-o", "references.json"),
    ):
        ran = run(*score, *outputs)
        assert ran.code == 2 and "would be lost" in " ".join(ran.err.replace("│", " ").split()), outputs
    for other in (
        ("convert", "good.json", "./good.json", "--to", "jsonl"),
        ("idf", "references.json", "-o", "references.json"),
        ("compare", "good.json", "bad.json", "-r", "references.json", "-o", "bad.json"),
        ("robustness", "references.json", "-o", "references.json"),
        ("chair", "good.json", "-r", "references.json", "-o", "in.json"),
    ):
        assert run(*other).code == 2, other
    assert json.loads((folder / "good.json").read_text()) == GOOD and not (folder / "both.json").exists()
    assert run(*score, "-o", "/dev/null").code == 0
