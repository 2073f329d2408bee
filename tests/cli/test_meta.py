"""`capmeter meta` as it is run."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from commandline import capmeter

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
    mine = {f"{image}#{k}": -k for image in range(8) for k in range(4)}
    (tmp_path / "mine.json").write_text(json.dumps(mine))
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
    kept = [json.loads(line) for line in items.read_text().splitlines()]
    assert kept[0] == {"id": "0#0", "human": [5.0], "length": float(len(TEXTS[0]))}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["-b", "rated"], 2, "give each --benchmark its --data"),
        (["-b", "flickr8k", "-d", "x"], 1, "did you mean flickr8k-"),
        (["-b", "rated", "-d", "absent.jsonl", "-m", "bleu-1"], 1, "absent.jsonl"),
        (["-b", "rated", "-d", "RATED", "-m", "bleu-9"], 2, "unknown metric"),
        (["-b", "rated", "-d", "RATED", "-m", "gleu"], 1, "rated has no source sentences, which gleu needs"),
        (["-b", "rated", "-d", "RATED", "-m", "gleu(n=3)"], 2, "gleu has no parameter 'n'"),
        (["-b", "rated", "-d", "RATED"], 1, "nothing to evaluate"),
        (["-b", "rated", "-d", "RATED", "-m", "bleu-1", "-p", "clipscore2021"], 1, "no protocol 'clipscore2021'"),
        (
            ["-b", "composite", "-d", "RATED", "-m", "bleu-1"],
            1,
            "not a valid row of composite: it has no candidate_",
        ),
        (["-b", "rated", "-d", "RATED", "-m", "bleu-1", "-f", "xml"], 2, "xml"),
    ],
)
def test_errors(rated: Path, arguments: list[str], code: int, message: str) -> None:
    done = call(*(str(rated) if each == "RATED" else each for each in arguments))
    assert done.returncode == code
    assert message in " ".join(done.stderr.replace("│", " ").split()) and "Traceback" not in done.stderr
    assert done.stdout == ""


def test_list() -> None:
    done = call("--list", "-f", "json")
    assert "clipscore2021" in json.loads(done.stdout)["flickr8k-expert"]["protocols"]


def test_curve_combinations_and_plots(rated: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    plots = tmp_path / "p.png"
    done = call(
        *("-b", "rated", "-d", rated, "-m", "bleu-1,rouge-l", "--resamples", 20, "--references-curve", 2, "--combine"),
        *("--repeats", 2, "--plot", plots, "-f", "json"),
    )
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["references_curve"]["numbers"] == [1, 2] and len(data["combinations"]) == 1
    assert data["spearman"]["values"][0][0] == 1.0
    made = sorted(path.name for path in tmp_path.glob("p-*.png"))
    assert made == [
        f"p-{what}.png" for what in ("agreement", "combinations", "correlations", "distributions", "references")
    ]


def test_a_plot_of_unknown_kind_is_refused_before_the_work(rated: Path, tmp_path: Path) -> None:
    done = call("-b", "rated", "-d", rated, "-m", "bleu-1", "--plot", tmp_path / "p.bmp")
    assert done.returncode == 2 and ".png, .svg or .pdf" in done.stderr
