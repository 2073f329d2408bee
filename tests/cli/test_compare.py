"""`capmeter compare` as a user runs it."""

from __future__ import annotations

import csv
import io
import json
import subprocess
from pathlib import Path

import pytest
from support.command_line import capmeter

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
    assert "(below) whose rouge-l scores differ most" in done.stdout
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
    inputs = ["-r", "refs.json", "a=good.json", "b=fair.json", *FAST]
    printed = json.loads(_run(folder, *inputs, "--format", "json", "-k", "2", "-o", "out.json").stdout)
    saved = json.loads((folder / "out.json").read_text())
    rows = list(csv.DictReader(io.StringIO(_run(folder, *inputs, "--format", "csv").stdout)))
    latex = _run(folder, *inputs, "--format", "latex").stdout
    assert [row["metric"] for row in rows] == list(printed["metrics"]) == ["bleu-1", "rouge-l"]
    for row in rows:
        (result,) = printed["metrics"][row["metric"]]["differences"]
        assert float(row["difference"]) == result["difference"]
        assert float(row["p"]) == result["p"] == 0.125  # all 2⁴ permutations: two are as far from 0
        assert saved["metrics"][row["metric"]]["ranking"] == printed["metrics"][row["metric"]]["ranking"]
        assert f"{result['difference']:+.4f}" in latex
    assert len(printed["metrics"]["bleu-1"]["differences"][0]["differing"]) == 1  # one is better in all, a half of two
    assert latex.startswith(r"\begin{tabular}")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["-r", "refs.json", "a=good.json"], 1, "needs at least two systems"),
        (["-r", "refs.json", "a=good.json", "a=poor.json"], 1, "two systems have the name 'a'"),
        (["-r", "refs.json", "a=good.json", "b=short.json"], 1, "only in 'a': 1, 2, 3"),
        (["-r", "refs.json", "a=good.json", "b=poor.json", "--test", "t"], 2, "is not one of permutation, bootstrap"),
        (["-r", "refs.json", "a=good.json", "b=poor.json", "--plot", "a.gif"], 2, "end the name in .png"),
        (["-r", "refs.json", "a=good.json", "b=poor.json", "--by", "cider"], 2, "not among the metrics"),
        (["-r", "refs.json", "a=good.json", "b=poor.json", "--by", "bleuu"], 2, "did you mean"),
        (["-r", "refs.json", "a=good.json", "b=none.json"], 1, "there is no such file"),
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
    inputs = ["-r", "many.json", *FAST, "--fail-if-worse"]
    done = _run(folder, *inputs, "new=wrong.json", "old=right.json")
    assert done.returncode == 4
    assert "failed: new is significantly worse than old under bleu-1 (by 0." in done.stderr
    assert "win/tie/loss" in done.stdout  # the table is printed all the same
    assert _run(folder, *inputs, "new=right.json", "old=wrong.json").returncode == 0
    assert _run(folder, *inputs, "new=right.json", "old=right.json").returncode == 0
    assert _run(folder, *inputs[:-1], "new=wrong.json", "old=right.json").returncode == 0


def test_stored_results_and_common_images(folder: Path) -> None:
    files = ["ours=good.json", "theirs=poor.json"]
    scored = capmeter("score", *files, "-r", "refs.json", "-m", "bleu-1,rouge-l", "-o", "scores.json", folder=folder)
    assert scored.returncode == 0, scored.stderr
    stored, computed = (
        _run(folder, *arguments, *FAST, "-f", "csv") for arguments in (["scores.json"], ["-r", "refs.json", *files])
    )
    assert stored.returncode == 0 and stored.stdout == computed.stdout
    refused = _run(folder, "scores.json", "-r", "refs.json", "--clean", "chat-artifacts", *FAST)
    assert refused.returncode == 1 and "--references, --clean: not for stored results" in refused.stderr
    mixed = _run(folder, "scores.json", "fair.json", "-r", "refs.json", *FAST)
    assert mixed.returncode == 0 and "note: --references: not for stored results" in mixed.stderr
    explained = capmeter("explain", "scores.json", "--system", "ours", "--worst", "1", "-m", "bleu-1", folder=folder)
    assert explained.returncode == 0, explained.stderr
    refused = capmeter("explain", "scores.json", "--system", "ours", "--unicode", "nfc", "--worst", "1", folder=folder)
    assert refused.returncode == 1 and "--unicode: not for stored results" in refused.stderr
    (folder / "part.json").write_text(
        json.dumps([{"image_id": "1", "caption": "a blue dog"}, {"image_id": "2", "caption": "a cat"}])
    )
    part = ["-r", "refs.json", "good.json", "part.json", *FAST]
    different = _run(folder, *part).stderr
    assert "do not have the same captions" in different and "--common" in different
    common = _run(folder, *part, "--common")
    assert common.returncode == 0 and "2 systems, 2 captions of 2 images each" in common.stdout
    assert "note: good: left out, as another system lacks it: 0, 3" in common.stderr


def test_results_are_explained_without_their_captions_file(folder: Path) -> None:
    files = ["ours=good.json", "theirs=poor.json"]
    capmeter("score", *files, "-r", "refs.json", "-m", "bleu-1,rouge-l", "-o", "both.json", folder=folder)
    done = capmeter("explain", "x=both.json", "--system", "theirs", "-m", "rouge-l", "--worst", "1", folder=folder)
    assert done.returncode == 0 and "a cat sits" in done.stdout
    named = capmeter("explain", "x=good.json", "-r", "refs.json", "-m", "rouge-l", "--best", "1", folder=folder)
    assert named.returncode == 0, named.stderr
    assert "choose one with --system NAME" in capmeter("explain", "both.json", "--worst", "1", folder=folder).stderr


def test_stored_results_are_compared_and_explained_by_their_metrics(folder: Path) -> None:
    files = ["ours=good.json", "theirs=poor.json"]
    capmeter("score", *files, "-r", "refs.json", "-m", "bleu-2,bleu-1", "-o", "two.json", folder=folder)
    compared = json.loads(_run(folder, "two.json", "--resamples", "50", "-f", "json").stdout)
    assert list(compared["metrics"]) == ["bleu-2", "bleu-1"]
    explained = capmeter("explain", "two.json", "--system", "ours", "--worst", "1", "-f", "json", folder=folder)
    assert list(json.loads(explained.stdout)[0]["scores"]) == ["bleu-2", "bleu-1"]
    capmeter("score", "good.json", "-r", "refs.json", "-m", "rouge-l", "-o", "other.json", folder=folder)
    refused = _run(folder, "two.json", "other.json")
    assert refused.returncode == 1 and "the stored results have no metric in common" in refused.stderr
    named = _run(folder, "two.json", "other.json", "-m", "rouge-l", "--resamples", "50")
    assert named.returncode == 0, named.stderr


def test_quiet_prints_no_notes_and_signatures(folder: Path) -> None:
    files = ["-r", "refs.json", "ours=good.json", "theirs=poor.json", "--quiet"]
    for done in (_run(folder, *files, *FAST), capmeter("score", *files, *FAST, folder=folder)):
        assert done.returncode == 0 and "rouge-l" in done.stdout and done.stderr == ""


def test_differences_at_equal_length(folder: Path) -> None:
    """The captions of `poor` and `fair` have three words each: their whole difference is left; those of `good` have
    four throughout, which says nothing of equal lengths."""
    done = _run(folder, "all.jsonl", "-m", "rouge-l", "--resamples", "50", "--control", "length", "--format", "json")
    assert done.returncode == 0, done.stderr
    pairs = json.loads(done.stdout)["metrics"]["rouge-l"]["equal_lengths"]
    (each,) = [pair for pair in pairs if {pair["first"], pair["second"]} == {"poor", "fair"}]
    assert each["words"] == 0 and each["at_equal_length"] == each["difference"] < 0
    table = _run(folder, "all.jsonl", "-m", "rouge-l", "--resamples", "50", "--control", "length").stdout
    assert "differences at equal length" in table and "100 %" in table
    assert "left: the difference at equal length as a share of the mean difference" in " ".join(table.split())
    assert not [pair for pair in pairs if {pair["first"], pair["second"]} == {"poor", "good"}]


def test_a_share_of_a_difference_that_may_be_0_is_not_printed(tmp_path: Path) -> None:
    """Of eight images each system is better on four: what is left of a mean difference of about 0 means nothing."""
    references = {str(k): ["a dog runs on the grass"] for k in range(8)}
    texts = "a dog runs on the grass", "a cat", "a dog runs", "two cats sit on a mat", "a dog"
    systems = {name: {str(k): texts[(3 * k + shift) % 5] for k in range(8)} for name, shift in (("x", 0), ("y", 2))}
    for name, content in {"refs": references, **systems}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    done = _run(tmp_path, "-r", "refs.json", "x.json", "y.json", "-m", "rouge-l", "--control", "length")
    table = done.stdout[done.stdout.index("differences at equal length") :]
    (row,) = [line.split() for line in table.splitlines() if line.split()[:1] == ["rouge-l"]]
    assert row[-1] == "-" and "if the interval of that is without 0" in " ".join(table.split())
