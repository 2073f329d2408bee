"""`capmeter compare` as a user runs it."""

from __future__ import annotations

import csv
import io
import json
import subprocess
from pathlib import Path

import pytest
from commandline import capmeter

REFERENCES = {str(k): [f"a {w} dog runs", f"the dog is {w}"] for k, w in enumerate(("red", "blue", "tan", "grey"))}
SYSTEMS = {
    "good": {id: texts[0] for id, texts in REFERENCES.items()},
    "poor": dict.fromkeys(REFERENCES, "a cat sits"),
    "fair": dict.fromkeys(REFERENCES, "the dog runs"),
    "same": {id: texts[1] for id, texts in REFERENCES.items()},
}
FAST = ["-m", "bleu-1,rouge-l", "--resamples", "50"]


def _run(folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return capmeter("compare", *arguments, folder=folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compare")
    (folder / "refs.json").write_text(json.dumps(REFERENCES))
    rows = []
    for name, captions in SYSTEMS.items():
        coco = [{"image_id": id, "caption": text} for id, text in captions.items()]
        (folder / f"{name}.json").write_text(json.dumps(coco))
        rows += [
            {"image_id": id, "candidate": text, "references": REFERENCES[id], "system": name}
            for id, text in captions.items()
        ]
    (folder / "all.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_two_systems_and_the_captions_that_differ_most(folder: Path) -> None:
    pytest.importorskip("matplotlib")
    systems = ["-r", "refs.json", "ours=good.json", "theirs=poor.json"]
    done = _run(folder, *systems, *FAST, "--differing", "2", "--by", "rouge-l", "--plot", "d.svg")
    assert done.returncode == 0, done.stderr
    assert "2 systems, 4 captions of 4 images each" in done.stdout
    assert "4/0/0" in done.stdout
    assert "a cat sits" in done.stdout
    assert "(below) that rouge-l tells apart most" in done.stdout
    assert "rank" not in done.stdout
    assert "ours − theirs" in (folder / "d.svg").read_text(encoding="utf-8")
    assert "note: ours: candidate is one of its own references" in done.stderr
    assert "signature: bleu-1|" in done.stderr


def test_many_systems_of_one_file_are_ranked(folder: Path) -> None:
    done = _run(folder, "all.jsonl", *FAST)
    assert done.returncode == 0, done.stderr
    assert "4 systems, 4 captions of 4 images each" in done.stdout
    neighbours = done.stdout.count("bleu-1  ")
    assert neighbours < _run(folder, "all.jsonl", *FAST, "--all-pairs").stdout.count("bleu-1  ")
    assert "p, Holm" in done.stdout


def test_json_csv_latex_and_the_file_agree(folder: Path) -> None:
    given = ["-r", "refs.json", "a=good.json", "b=fair.json", *FAST]
    printed = json.loads(_run(folder, *given, "--format", "json", "-k", "2", "-o", "out.json").stdout)
    saved = json.loads((folder / "out.json").read_text())
    rows = list(csv.DictReader(io.StringIO(_run(folder, *given, "--format", "csv").stdout)))
    latex = _run(folder, *given, "--format", "latex").stdout
    assert [row["metric"] for row in rows] == list(printed["metrics"]) == ["bleu-1", "rouge-l"]
    for row in rows:
        (found,) = printed["metrics"][row["metric"]]["differences"]
        assert float(row["difference"]) == found["difference"]
        assert float(row["p"]) == found["p"] == 0.125  # all 2⁴ permutations: two are as far from 0
        assert saved["metrics"][row["metric"]]["ranking"] == printed["metrics"][row["metric"]]["ranking"]
        assert f"{found['difference']:+.4f}" in latex
    assert len(printed["metrics"]["bleu-1"]["differences"][0]["differing"]) == 1  # one is better in all, a half of two
    assert latex.startswith(r"\begin{tabular}")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["-r", "refs.json", "a=good.json"], 1, "needs at least two systems"),
        (["-r", "refs.json", "a=good.json", "a=poor.json"], 1, "two systems have the name 'a'"),
        (["-r", "refs.json", "a=good.json", "b=short.json"], 1, "only in 'a': 1, 2, 3"),
        (["-r", "refs.json", "a=good.json", "b=poor.json", "--test", "t"], 2, "known are: permutation, bootstrap"),
        (["-r", "refs.json", "a=good.json", "b=poor.json", "--plot", "a.gif"], 2, "end the name in .png"),
        (["-r", "refs.json", "a=good.json", "b=poor.json", "--by", "cider"], 2, "not among the metrics"),
        (["-r", "refs.json", "a=good.json", "b=poor.json", "--by", "bleu"], 2, "did you mean"),
        (["-r", "refs.json", "a=good.json", "b=none.json"], 1, "there is no such file"),
        (["-r", "refs.json", "a=good.json", "b=poor.json", "--on-missing", "keep"], 2, "is not one of error, skip"),
        (["-r", "refs.json", "a=good.json", "b=poor.json", "-o", "no/c.json"], 1, "there is no folder"),
    ],
)
def test_mistakes_are_sentences(folder: Path, arguments: list[str], code: int, message: str) -> None:
    (folder / "short.json").write_text(json.dumps([{"image_id": "0", "caption": "a dog"}]))
    done = _run(folder, *arguments)
    assert done.returncode == code
    assert message in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr


def test_a_system_that_is_worse_fails_a_check(folder: Path) -> None:
    references = {str(k): [f"a dog number {k} runs"] for k in range(12)}
    (folder / "many.json").write_text(json.dumps(references))
    for name, caption in (("right", "a dog number {} runs"), ("wrong", "two cats {}")):
        rows = [{"image_id": k, "caption": caption.format(k)} for k in range(12)]
        (folder / f"{name}.json").write_text(json.dumps(rows))
    given = ["-r", "many.json", *FAST, "--fail-if-worse"]
    done = _run(folder, *given, "new=wrong.json", "old=right.json")
    assert done.returncode == 4
    assert "failed: new is significantly worse than old under bleu-1 (by 0." in done.stderr
    assert "win/tie/loss" in done.stdout  # the table is printed all the same
    assert _run(folder, *given, "new=right.json", "old=wrong.json").returncode == 0
    assert _run(folder, *given, "new=right.json", "old=right.json").returncode == 0
    assert _run(folder, *given[:-1], "new=wrong.json", "old=right.json").returncode == 0
