"""`capmeter meta` as it is run."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet
import pytest
from support.command_line import capmeter

TEXTS = ["a dog runs on grass", "a dog runs", "a cat sits there", "nothing of this"]


@pytest.fixture()
def rated(tmp_path: Path) -> Path:
    rows = [
        {"image_id": f"{image}", "candidate": text, "references": ["a dog runs on grass", "dogs"], "human": [5 - k]}
        for image in range(8)
        for k, text in enumerate(TEXTS)
    ]
    path = tmp_path / "rated.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def call(*arguments: object) -> subprocess.CompletedProcess[str]:
    return capmeter("meta", *arguments)


def test_table_with_its_protocol_in_one_line(rated: Path) -> None:
    done = call("-b", "rated", "-d", rated, "-m", "rouge-l,bleu-1", "--resamples", 50, "--differences")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "rated: 32 judgments of 8 images" in lines[0]
    assert any(line.split()[:2] == ["1", "rouge-l"] for line in lines)
    assert sum(line.startswith("protocol: averaged(judgments=human,") for line in lines) == 1
    assert "signature: rouge-l|" in done.stderr and "signature" not in done.stdout


def test_json_and_scores_of_a_file(rated: Path, tmp_path: Path) -> None:
    own_values = {f"{image}#{k}": -k for image in range(8) for k in range(4)}
    (tmp_path / "mine.json").write_text(json.dumps(own_values))
    done = call("-b", "rated", "-d", rated, "-s", tmp_path / "mine.json", "--resamples", 50, "--format", "json")
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["results"][0] | {"metric": "mine", "n": 32, "rank": 1} == data["results"][0]
    assert data["results"][0]["value"] == pytest.approx(100)


def test_several_benchmarks(rated: Path) -> None:
    done = call("-b", "rated", "-d", rated, "-b", "rated", "-d", rated, "-m", "bleu-1", "--resamples", 20, "-f", "json")
    assert [each["benchmark"] for each in json.loads(done.stdout)["benchmarks"]] == ["rated", "rated"]


def test_latex_and_csv(rated: Path) -> None:
    latex = call("-b", "rated", "-d", rated, "-m", "bleu-1", "--resamples", 20, "-f", "latex").stdout
    assert latex.startswith(r"\begin{tabular}") and "\n% protocol: averaged(" in latex
    done = call("-b", "rated", "-d", rated, "-m", "bleu-1", "--resamples", 20, "-f", "csv")
    assert done.stdout.splitlines()[0] == "rank,metric,tau-b,95% interval" and "protocol: averaged(" in done.stderr


def test_export_scored_elsewhere_comes_back(rated: Path, tmp_path: Path) -> None:
    captions = tmp_path / "captions.jsonl"
    assert call("-b", "rated", "-d", rated, "--export", captions).returncode == 0
    rows = [json.loads(line) for line in captions.read_text().splitlines()]
    scores = tmp_path / "length.csv"
    scores.write_text("id,length\n" + "".join(f"{row['id']},{len(row['candidate'])}\n" for row in rows))
    items = tmp_path / "items.jsonl"
    done = call("-b", "rated", "-d", rated, "-s", scores, "--resamples", 20, "--per-caption", items)
    assert done.returncode == 0, done.stderr
    remaining = [json.loads(line) for line in items.read_text().splitlines()]
    assert remaining[0] == {"id": "0#0", "human": [5.0], "length": float(len(TEXTS[0]))}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["-b", "rated"], 2, "give each --benchmark its --data"),
        (["-b", "flickr8k", "-d", "x"], 1, "did you mean flickr8k-"),
        (["-b", "rated", "-d", "absent.jsonl", "-m", "bleu-1"], 1, "absent.jsonl"),
        (["-b", "rated", "-d", "RATED", "-m", "bleu-9"], 2, "unknown metric"),
        (["-b", "rated", "-d", "RATED"], 1, "nothing to evaluate"),
        (["-b", "rated", "-d", "RATED", "-m", "bleu-1", "-p", "clipscore2021"], 1, "no protocol 'clipscore2021'"),
        (["-b", "composite", "-d", "RATED", "-m", "bleu-1"], 1, "not a valid row of composite: it has no candidate_"),
        (["-b", "rated", "-d", "RATED", "-m", "bleu-1", "-f", "xml"], 2, "xml"),
    ],
)
def test_errors(rated: Path, arguments: list[str], code: int, message: str) -> None:
    done = call(*(str(rated) if each == "RATED" else each for each in arguments))
    assert done.returncode == code
    assert message in " ".join(done.stderr.replace("│", " ").split()) and "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_control_that_is_not_defined_is_refused_before_anything_is_scored(rated: Path) -> None:
    metric = ("-m", "judge(model=m,task=no-such-task.yaml)")
    done = call("-b", "haelm", "-d", rated, *metric, "--sample", "--control", "length")
    assert done.returncode == 1 and "no average-precision with length held constant is defined" in done.stderr


def test_list() -> None:
    done = call("--list", "-f", "json")
    assert "clipscore2021" in json.loads(done.stdout)["flickr8k-expert"]["protocols"]


def test_plots(rated: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    done = call("-b", "rated", "-d", rated, "-m", "bleu-1,rouge-l", "--resamples", 20, "--plot", tmp_path / "p.png")
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in tmp_path.glob("p-*.png")) == ["p-agreement.png", "p-distributions.png"]


def test_a_plot_of_unknown_kind_is_refused_before_the_work(rated: Path, tmp_path: Path) -> None:
    done = call("-b", "rated", "-d", rated, "-m", "bleu-1", "--plot", tmp_path / "p.bmp")
    assert done.returncode == 2 and ".png, .svg or .pdf" in done.stderr


COMMANDS = re.findall(
    r"(?m)^    capmeter ((?:meta|compare) .*)$",
    (Path(__file__).resolve().parents[2] / "docs" / "detailed-captions.md")
    .read_text("utf-8")
    .partition("## Length held constant")[2]
    .partition("## How well they work")[0],
)


def battles() -> list[dict[str, Any]]:
    """Battles of three models, of which the first describes most."""
    texts = {"full": "a brown dog runs on green grass", "part": "a dog runs on grass", "none": "a cat"}
    pairs = [("full", "part"), ("part", "none"), ("none", "full")]
    return [
        {"image_id": str(k), "system_a": a, "system_b": b, "candidate_a": texts[a], "candidate_b": texts[b],
         "references": ["a brown dog runs on green grass"], "correct": "tie" if k % 4 == 3 else "ab"[b == "full"]}
        for k in range(12)
        for a, b in pairs[k % 3 : k % 3 + 1]
    ]  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small files under the names of the page on detailed captions."""
    folder, rows = tmp_path_factory.mktemp("detailed"), battles()
    (folder / "battles.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    winner = {"a": "system_a", "b": "system_b"}
    caparena = [
        {"img": row["image_id"], "source1": row["system_a"], "source2": row["system_b"], "caption1": row["candidate_a"],
         "caption2": row["candidate_b"], "ref": row["references"][0], "cluster": "level 1",
         "winner": row[winner[row["correct"]]] if row["correct"] in winner else "equal"}
        for row in rows
    ]  # fmt: skip
    (folder / "caparena_annots_eval.json").write_text(json.dumps(caparena))
    degrees = {"a": "1_much_better", "b": "2_slightly_better", "tie": "equal"}
    docent = [
        {"uuid": row["image_id"], "reference": row["references"][0], "model1": row["system_a"],
         "model2": row["system_b"], "model1_generation": row["candidate_a"], "model2_generation": row["candidate_b"],
         **dict.fromkeys(("mistakes", "omissions", "overall_quality"), degrees[row["correct"]])}
        for row in rows
    ]  # fmt: skip
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(docent), folder / "docent.parquet")
    lines = [f'{row["image_id"]},{row["candidate_a"]},{k / 12},"{row["references"]}"' for k, row in enumerate(rows)]
    (folder / "desc_dci_val.csv").write_text("\n".join(["imgid,cand,score,refs", *lines]) + "\n")
    detail = {f"GT_Caption_{name}": "a brown dog runs on grass" for name in ("GPT4O", "GPT4V", "Gemini15Pro")}
    models = {"CogVLM": "a brown dog runs", "ShareCaptioner": "a brown dog", "LLaVA_v15": "a cat"}
    ratings = json.dumps({"CogVLM": 4, "ShareCaptioner": 2, "LLaVA_v15": 1})
    detailcaps = [{"image": str(k), **detail, **models, "GPT4_Eval": ratings} for k in range(6)]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(detailcaps), folder / "DetailCaps-4870.parquet")
    texts = {"long": "a brown dog runs on grass" + " today" * 2, "short": "a dog runs"}
    for name, text in texts.items():
        captions = {str(k): " ".join(text.split()[: 2 + k]) for k in range(6)}
        (folder / f"{name}.json").write_text(json.dumps(captions))
    (folder / "refs.json").write_text(json.dumps({str(k): ["a brown dog runs on green grass"] for k in range(6)}))
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_of_the_page_on_detailed_captions(files: Path, command: str) -> None:
    pytest.importorskip("pycocoevalcap", reason="needs METEOR's tables")
    done = capmeter(*shlex.split(command), "--resamples", "20", folder=files)
    assert done.returncode == 0, done.stderr
    expected = {"caparena": "ratings of 3 systems", "arena": "ratings of 3 systems", "docent": "12 pairs",
                "longcap-arena": "partial tau-b", "detailcaps": "18 judgments"}  # fmt: skip
    name = command.split()[2] if command.startswith("meta") else ""
    assert expected.get(name, "differences at equal length") in done.stdout


def test_an_arena_as_json(files: Path) -> None:
    """The longest caption is right unless people tie; 9 of 12 battles are decided."""
    done = call("-b", "arena", "-d", files / "battles.jsonl", "-m", "rouge-l", "--control", "length", "-f", "json",
                "--resamples", 20)  # fmt: skip
    data = json.loads(done.stdout)
    ratings = [row for row in data["arena"] if row["statistic"] == "rating"]
    assert list(dict.fromkeys(row["metric"] for row in ratings)) == ["human", "rouge-l", "length"]
    assert [row["subset"] for row in ratings if row["metric"] == "rouge-l"] == ["full", "part", "none"]
    assert ["rouge-l", "spearman", pytest.approx(100)] in [
        [row[k] for k in ("metric", "statistic", "value")] for row in data["arena"]
    ]
    assert {row["value"] for row in data["given_length"]} == {None}  # people never prefer the shorter caption


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_every_number_is_a_row_of_one_file(rated: Path, tmp_path: Path, ending: str) -> None:
    """What the tables print is in the file, of every benchmark, at full precision."""
    output, files = tmp_path / f"agreement.{ending}", ("-b", "rated", "-d", rated)
    done = call(
        *files, *files, "-m", "bleu-1,rouge-l", "--resamples", 20, "--control", "length", "-o", output, "-f", "json"
    )
    assert done.returncode == 0, done.stderr
    read = {"parquet": pyarrow.parquet.read_table, "csv": pyarrow.csv.read_csv, "jsonl": pyarrow.json.read_json}[ending]
    rows = read(output).to_pylist()
    printed = json.loads(done.stdout)["benchmarks"]
    for analysis in ("results", "differences", "given_length"):
        expected = [(row["metric"], row["value"], row.get("low")) for each in printed for row in each[analysis]]
        assert [(row["metric"], row["value"], row["low"]) for row in rows if row["analysis"] == analysis] == expected
    assert {row["benchmark"] for row in rows} == {"rated"} and rows[0]["protocol"].startswith("averaged(")
