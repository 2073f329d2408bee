"""The studies as commands: their tables, figures and refusals."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from capmeter.cli.main import main


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["capmeter", "study", *arguments])
        with pytest.raises(SystemExit) as leaving:
            main()
        return (int(leaving.value.code or 0), *capsys.readouterr())

    return call


def _figures(folder: Path, name: str) -> None:
    assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (folder / f"{name}.svg").read_text(encoding="utf-8")


DRAWN = ("--plot", "x.png", "--plot", "x.svg", "--resamples", "20")


def test_the_grammar_command(run, tmp_path: Path) -> None:
    rows = [{"systems": {"a": "a dog runs", "b": "a dog", "c": "cats"}, "references": ["a dog runs"]}] * 2
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "human.json").write_text('{"a": 3, "b": 2, "c": 1}')
    code, out, err = run("grammar", "rows.jsonl", "--human", "human.json", "-m", "sparcs,rouge-l", "-f", "json", *DRAWN)
    assert code == 0, err
    assert json.loads(out)["agreement"]["sparcs"]["spearman"]["value"] == 1
    _figures(tmp_path, "x")


def test_the_failures_command(run, tmp_path: Path) -> None:
    rows = [
        {"image_id": k, "captions": {"a": "a dog runs", "b": "a dog", "c": "cats"}, "references": ["a dog runs"]}
        for k in "pqr"
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "human.json").write_text('{"a": 3, "b": 2, "c": 1}')
    code, out, err = run("failures", "rows.jsonl", "--human", "human.json", "-m", "rouge-l", "-a", "sparcs", *DRAWN)
    assert code == 0, err
    assert "rouge-l   0.000 [0.000, 0.000]" in out
    _figures(tmp_path, "x")


def test_the_ties_command(run, tmp_path: Path) -> None:
    message = {"a dog runs": ([4, 4], [1]), "a dog": ([3], [1, 0]), "cats": ([1], [0])}
    for name, column in (("experts", 0), ("crowd", 1)):
        rows = [
            {"image_id": "p", "candidate": text, "references": ["the dog runs"], "human": ratings[column]}
            for text, ratings in message.items()
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, out, err = run("ties", "experts.jsonl", "crowd.jsonl", "-m", "sparcs", *DRAWN)
    assert code == 0, err
    assert "inter-human   1.000" in out
    _figures(tmp_path, "x")


@pytest.mark.neural
def test_the_degradation_command(run, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs the neural extra")
    (tmp_path / "text.txt").write_text("A brown dog runs over the grass. Two cats sleep on a red sofa.\n")
    command = ("degradation", "text.txt", "-e", "minilm", "--steps", "2", "-f", "json", *DRAWN)
    code, out, err = run(*command)
    assert code == 0, err
    result = json.loads(out)
    assert result["fractions"] == [0, 0.5, 1]
    means = result["encoders"]["minilm"]
    assert all(low <= mean <= high for low, mean, high in zip(means["low"], means["mima"], means["high"], strict=True))
    assert run(*command)[1] == out
    assert run(*command, "--seed", "5")[1] != out
    _figures(tmp_path, "x")


def test_wrong_figures_are_refused_first(run) -> None:
    code, _, err = run("ties", "nowhere.jsonl", "nowhere.jsonl", "--plot", "x.gif")
    assert code == 2 and "x.gif" in err


def test_a_labelled_sheet_is_tallied(run, tmp_path: Path) -> None:
    (tmp_path / "cases.csv").write_text("metric,cause\ncider-d,c2\ncider-d,c1\ncider-d,c2\ncider-d,\n")
    code, out, _ = run("tally", "cases.csv")
    assert code == 0 and "P(c2|F)" in out and "0.667 [" in out and "1 without a cause" in out
    code, out, _ = run("tally", "cases.csv", "--format", "json")
    assert json.loads(out)["cider-d"]["labelled"] == 3
    assert run("tally", "cases.csv", "--cause", "wrong", "--cause", "right")[0] == 1
