"""`--column`: every command that reads tables of captions takes other names of their columns."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.command_line import capmeter
from support.research import needs_research

from capmeter.core.errors import InputError
from capmeter.judgments.benchmarks import all_benchmarks

WORDS = ["red", "blue", "tan", "grey", "green", "black"]
NAMES = ("--column", "image_id=photo", "--column", "candidate=said", "--column", "references=gold a")
BOTH = (*NAMES, "--column", "references=gold b")
ROWS: list[dict[str, Any]] = [
    {
        "photo": k,
        "said": f"a {word} dog runs",
        "gold a": f"the {word} dog",
        "gold b": f"a dog which is {word} runs",
        "stars": [k % 5],
    }
    for k, word in enumerate(WORDS)
]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(ROWS[0]))
        writer.writeheader()
        writer.writerows({**row, "stars": row["stars"][0]} for row in ROWS)
    return path


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "lines.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def output_of(*arguments: object) -> str:
    done = capmeter(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", ["table", "lines"])
def test_each_command_reads_them(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    path = request.getfixturevalue(kind)
    scored = json.loads(output_of("score", path, *BOTH, "-m", "bleu-1", "-f", "json"))
    assert scored["systems"][kind]["metrics"]["bleu-1"]["score"] == pytest.approx(1)
    assert "6" in output_of("validate", path, *BOTH)
    (found,) = json.loads(output_of("explain", path, *BOTH, "-m", "bleu-1", "--id", "2", "-f", "json"))
    assert found["scores"]["bleu-1"] == pytest.approx(1)
    output_of("convert", path, tmp_path / "out.jsonl", *BOTH)
    assert json.loads((tmp_path / "out.jsonl").read_text().splitlines()[1])["references"][0] == "the blue dog"
    both = ("compare", f"a={path}", f"b={path}", *BOTH, "-m", "bleu-1", "--resamples", 20, "-f", "json")
    assert json.loads(output_of(*both))
    assert "6 human captions of 3 images" not in output_of("robustness", path, *BOTH, "-m", "bleu-1", "--resamples", 20)
    output_of("idf", path, *BOTH, "-o", tmp_path / "idf.npz")
    assert (tmp_path / "idf.npz").exists()


@pytest.mark.parametrize("kind", ["table", "lines"])
def test_judged_captions_too(kind: str, request: pytest.FixtureRequest) -> None:
    path = request.getfixturevalue(kind)
    chosen = (*BOTH, "--column", "human=stars")
    found = json.loads(output_of("meta", "-b", "rated", "-d", path, *chosen, "-m", "bleu-1,rouge-l", "-f", "json"))
    assert {each["metric"] for each in found["results"]} == {"bleu-1", "rouge-l"}
    assert all(each["n"] == 6 for each in found["results"])
    done = capmeter("meta", "-b", "rated", "-d", path, *chosen, "--column", "system=model", "-m", "bleu-1")
    assert done.returncode == 1 and "model" in done.stderr


def test_rows_of_another_name_for_the_candidate_get_the_option(tmp_path: Path) -> None:
    (tmp_path / "rated.jsonl").write_text(json.dumps({"said": "a dog", "references": ["a dog runs"], "human": [3]}))
    done = capmeter("meta", "-b", "rated", "-d", "rated.jsonl", "-m", "rouge-l", folder=tmp_path)
    assert done.returncode == 1 and "say which column holds it: --column candidate=NAME" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("calibrate", "FILE", "--column", "references=gold a"),
        pytest.param(
            ("standardize", "FILE", "-o", "x.json", "--column", "candidate=said"),
            marks=needs_research,
            id="standardize",
        ),
        pytest.param(
            ("systems", "FILE", "--human", "a", "--column", "candidate=said"), marks=needs_research, id="systems"
        ),
        pytest.param(("study", "degradation", "FILE", "--column", "candidate=said"), marks=needs_research, id="study"),
    ],
)
def test_a_wrong_choice_is_refused_before_anything_is_read(arguments: tuple[str, ...], table: Path) -> None:
    inputs = [str(table) if each == "FILE" else each for each in arguments]
    done = capmeter(*inputs, "--column", "wrong=said")
    assert done.returncode == 1
    assert "--column wrong=said: expected FIELD=NAME" in " ".join(done.stderr.split())


def test_a_layout_without_columns_refuses_them(tmp_path: Path) -> None:
    benchmarks = all_benchmarks().values()
    layouts = [(each, layout) for each in benchmarks for layout in each.file_layouts if not layout.names_columns]
    assert layouts
    for benchmark, layout in layouts:
        alone = replace(benchmark, file_layouts=(replace(layout, accepts=lambda path: True),))
        with pytest.raises(InputError, match="no column can be chosen"):
            alone.read(tmp_path, {"said": "candidate"})
