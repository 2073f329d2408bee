"""`capmeter score --parts`: files of scores, the scores of all, and runs that go on; columns beside scores."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.command_line import capmeter

WORDS = ("dog", "cat", "bus", "horse", "boat", "bird")
READ = ("--column", "image_id=key", "--column", "candidate=text", "--reference-column", "references=human")
METRICS = ("-m", "rouge-l,cider-d", "-f", "json")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    rows = [{"key": f"i{k}", "text": f"a {word} runs {k}", "url": f"u{k}"} for k, word in enumerate(WORDS)]
    for k in range(3):
        text = "".join(json.dumps(row) + "\n" for row in rows[2 * k : 2 * k + 2])
        (tmp_path / "in" / f"p{k}.jsonl").write_text(text)
    references = [{"key": row["key"], "human": f"the {word} is running"} for row, word in zip(rows, WORDS, strict=True)]
    (tmp_path / "refs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in references))
    (tmp_path / "all.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def score(folder: Path, *arguments: str) -> Any:
    parts = ("in/*.jsonl", "--parts", "out", "-r", "refs.jsonl")
    return capmeter("score", *parts, *READ, *METRICS, *arguments, folder=folder)


def test_the_scores_are_those_of_one_file(folder: Path) -> None:
    done = score(folder)
    assert done.returncode == 0, done.stderr
    total = capmeter("score", "all.jsonl", "-r", "refs.jsonl", *READ, *METRICS, folder=folder)
    expected = json.loads(total.stdout)["systems"]["all"]["metrics"]
    scores = json.loads(done.stdout)
    for name, values in expected.items():
        assert scores["systems"][""]["scores"][name] == values["score"]
        assert scores["systems"][""]["intervals"][name] == [values["low"], values["high"]]
    files = sorted((folder / "out").glob("*.parquet"))
    assert [path.name.partition("-")[0] for path in files] == ["p0", "p1", "p2"]
    files[1].unlink()
    again = score(folder, "--workers", "2")
    assert json.loads(again.stdout)["resumed"] == 2
    assert json.loads(again.stdout)["systems"] == scores["systems"]
    assert "2 of 3 parts were finished before" in again.stderr
    table = capmeter("score", "in/*.jsonl", "--parts", "out", "-r", "refs.jsonl", *READ, *METRICS[:2], folder=folder)
    assert "in" in table.stdout and "rouge-l" in table.stdout and "6 captions in 3 parts" in table.stdout


def test_thresholds_of_overlap_are_columns(tmp_path: Path) -> None:
    event = {"image_id": "v7", "timestamps": [[0, 4]], "sentences": ["a dog runs"]}
    (tmp_path / "in.jsonl").write_text(json.dumps(event) + "\n")
    (tmp_path / "refs.json").write_text(json.dumps({"v7": {"timestamps": [[0, 8]], "sentences": ["a dog runs"]}}))
    arguments = ("score", "in.jsonl", "-r", "refs.json", "-m", "dense(metric=rouge-l),bleu-1", "--parts", "out")
    done = capmeter(*arguments, "-f", "csv", folder=tmp_path)
    head, dense, bleu = (line.split(",") for line in done.stdout.splitlines())
    assert head[-4:] == ["iou 0.3", "iou 0.5", "iou 0.7", "iou 0.9"]
    assert (dense[-4:], bleu[-4:]) == (["1.0000", "1.0000", "0.0000", "0.0000"], ["-"] * 4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--per-caption", "x.csv"), "cannot be combined with --parts"),
        (("-o", "x.json"), "cannot be combined with --parts"),
        (("all.jsonl",), "name one file, or a pattern in quotes"),
        (("--gpus", "0.5"), "needs --workers ray"),
        (("--workers", "0"), "expected a number from 1 to 256, ray, or ray:N"),
        (("--workers", "ray:"), "expected a number from 1 to 256, ray, or ray:N"),
    ],
)
def test_options_without_effect_are_refused(folder: Path, arguments: tuple[str, ...], message: str) -> None:
    done = score(folder, *arguments)
    assert done.returncode == 2 and message in " ".join(done.stderr.replace("│", " ").split())


def test_a_file_in_place_of_the_folder_is_refused(folder: Path) -> None:
    done = capmeter("score", "all.jsonl", "--parts", "refs.jsonl", folder=folder)
    assert done.returncode == 2 and "is a file, expected a folder" in " ".join(done.stderr.replace("│", " ").split())


@pytest.mark.parametrize("parts", [False, True])
def test_several_columns_of_candidates_are_systems(folder: Path, parts: bool) -> None:
    row = {"key": 1, "a": "a dog runs", "b": "a cat", "human": "a dog is running"}
    (folder / "x.jsonl").write_text(json.dumps(row) + "\n")
    columns = ("--column", "image_id=key", "--column", "candidate=a,b", "--column", "references=human")
    options = ("--parts", "out") if parts else ()
    done = capmeter("score", "x.jsonl", *columns, "-m", "rouge-l", "-f", "json", *options, folder=folder)
    systems = json.loads(done.stdout)["systems"]
    score = systems["a"]["scores"]["rouge-l"] if parts else systems["a"]["metrics"]["rouge-l"]["score"]
    assert list(systems) == ["a", "b"] and score > 0.5


def test_the_recipe_of_the_page_filters(folder: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    rows = [
        {"id": "x", "image_id": 1, "candidate": "a dog", "references": ["a dog"], "url": "u"},
        {"id": "y", "image_id": 2, "candidate": "a cat", "references": ["the bus stops"], "url": "v"},
    ]
    (folder / "f.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    per_caption = ("--per-caption", "scores.parquet")
    assert capmeter("score", "f.jsonl", "-m", "rouge-l", "--no-intervals", *per_caption, folder=folder).returncode == 0
    page = (Path(__file__).resolve().parents[2] / "docs" / "scale.md").read_text("utf-8")
    (statements,) = (each.partition("```")[0] for each in page.split("```sql\n")[1:] if "kept.parquet" in each)
    with duckdb.connect() as database:
        database.execute(f"COPY (SELECT * FROM '{folder}/f.jsonl') TO '{folder}/captions.parquet'")
        for name in ("captions.parquet", "scores.parquet", "kept.parquet"):
            statements = statements.replace(f"'{name}'", f"'{folder}/{name}'")
        copy, histogram, share, _ = re.split(r";[^\n]*\n", statements)
        database.execute(copy)
        assert database.execute(f"SELECT id, url FROM '{folder}/kept.parquet'").fetchall() == [("x", "u")]
        assert database.execute(histogram).fetchall() == [(0.0, 1), (1.0, 1)]
        assert database.execute(share).fetchall() == [(0.5,)]


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
def test_every_row_of_the_file_is_beside_its_scores(folder: Path, ending: str) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    with (folder / "all.jsonl").open("a") as file:
        file.write('\n{"key": "lost", "text": "a cow", "url": null}\n{"key": "i0", "text": "a dog"}\n')
    read = ("-r", "refs.jsonl", *READ, *METRICS, "--on-missing", "skip", "--keep", "url")
    path = folder / f"x.{ending}"
    done = capmeter("score", "all.jsonl", *read, "--per-caption", path.name, folder=folder)
    assert done.returncode == 0, done.stderr
    assert re.search(r"skipped without references: .*\blost\b", done.stderr)
    rows: list[Any] = parquet.read_table(path).to_pylist() if ending == "parquet" else path.read_text().splitlines()
    if ending == "jsonl":
        rows = [json.loads(row) for row in rows]
    if ending in ("csv", "tsv"):
        cells = [row.split({"csv": ",", "tsv": "\t"}[ending]) for row in rows]
        assert cells[0] == ["id", "image_id", "system", "rouge-l", "cider-d", "row", "url"]
        assert cells[7] == ["lost", "lost", "all", "", "", "6", ""] and cells[8][0] == "i0#1" and cells[8][5] == "7"
    else:
        assert [row["row"] for row in rows] == list(range(8)) and [row["url"] for row in rows[:2]] == ["u0", "u1"]
        assert [row["rouge-l"] is None for row in rows] == [False] * 6 + [True, False]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--keep", "url"), 2, "needs --per-caption FILE or --parts FOLDER"),
        (("--keep", "url,image_id", "--per-caption", "x.csv"), 2, "the rows have image_id without it"),
        (("--keep", "rouge-l", "--per-caption", "x.csv"), 2, "the rows have rouge-l without it"),
        (("--keep", "rouge-l/score", "--per-caption", "x.csv"), 2, "the rows have rouge-l/score without it"),
        (("--keep", "nosuch", "--per-caption", "x.csv"), 1, "no row has the column nosuch that --keep names"),
    ],
)
def test_columns_that_cannot_be_carried_are_refused(
    folder: Path, arguments: tuple[str, ...], code: int, message: str
) -> None:
    done = capmeter("score", "all.jsonl", "-r", "refs.jsonl", *READ, "-m", "rouge-l", *arguments, folder=folder)
    assert done.returncode == code and message in " ".join(done.stderr.replace("│", " ").split())
    assert not (folder / "x.csv").exists()


def test_absent_captions_scored_as_empty_come_last(folder: Path) -> None:
    lines = (folder / "all.jsonl").read_text().splitlines(keepends=True)
    (folder / "all.jsonl").write_text("".join(lines[:-1]))
    options = ("--on-absent", "empty", "--keep", "url", "--texts", "--per-caption", "x.jsonl")
    done = capmeter("score", "all.jsonl", "-r", "refs.jsonl", *READ, "-m", "rouge-l", *options, folder=folder)
    last = json.loads((folder / "x.jsonl").read_text().splitlines()[-1])
    expected = {
        "id": "i5",
        "rouge-l": 0,
        "row": None,
        "url": None,
        "candidate": "",
        "references": ["the bird is running"],
    }
    assert done.returncode == 0 and {name: last[name] for name in expected} == expected


def test_a_dry_run_shows_the_first_questions_of_each_system_and_asks_none(tmp_path: Path) -> None:
    pytest.importorskip("openai", reason="needs the judges extra")
    rows = [
        {"image_id": k // 2, "candidate": f"a dog {k}", "references": ["a pup"], "system": "ab"[k % 2]}
        for k in range(12)
    ]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = capmeter("score", "x.jsonl", "-m", "clair(model=m)", "--dry-run", folder=tmp_path)  # no server is named
    questions = re.findall(r"^- a dog (\d+)$", done.stdout, re.MULTILINE)
    assert done.returncode == 0 and questions == ["0", "2", "4", "1", "3", "5"]
    for name in "ab":
        assert re.search(
            rf"^--- {name}: clair\(model=m\): 6 questions, about .*; nothing was asked$", done.stdout, re.M
        )
    refused = capmeter("score", "x.jsonl", "-m", "rouge-l", "--dry-run", folder=tmp_path)
    assert refused.returncode == 2 and "needs a judge" in refused.stderr
