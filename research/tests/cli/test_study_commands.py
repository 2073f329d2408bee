"""The studies as commands: their tables, figures and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


def _figures(folder: Path, name: str) -> None:
    assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (folder / f"{name}.svg").read_text(encoding="utf-8")


DRAWN = ("--plot", "x.png", "--plot", "x.svg", "--resamples", "20")


@pytest.mark.neural
def test_the_degradation_command(run, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs the neural extra")
    (tmp_path / "text.txt").write_text("A brown dog runs over the grass. Two cats sleep on a red sofa.\n")
    command = ("study", "degradation", "text.txt", "-e", "minilm", "--steps", "2", "-f", "json", *DRAWN)
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
    code, _, err = run("study", "degradation", "nowhere.txt", "--plot", "x.gif")
    assert code == 2 and "x.gif" in err


def test_a_paper_is_one_page(run, tmp_path: Path, shared: Path) -> None:
    data = tmp_path / "data" / "samples"
    data.mkdir(parents=True)
    data.joinpath("pascal50s.jsonl.gz").symlink_to(shared / "data" / "samples" / "pascal50s.jsonl.gz")
    code, _, err = run("study", "paper", "wembsim", "--data", "data", "-o", "pages", "--quick")
    assert code == 0, err
    page = (tmp_path / "pages" / "wembsim.md").read_text("utf-8")
    first, second = page.split("\n## ")[1:]
    ours = next(line for line in first.splitlines() if line.startswith("|") and "| bleu-4 |" in line and "[" in line)
    assert "| 60.0 |" in ours  # HC, of 50 pairs
    assert "| bleu-4 | 73.45 | HC 53.7, HI 93.2 |" in first  # published
    assert "it needs coco2015_challenge_system_level.jsonl.gz" in second


@pytest.mark.parametrize(
    ("paper", "data", "said"), [("nobody", "data", "expected one of tbr"), ("tbr", ".", "has none of")]
)
def test_a_paper_without_data_or_name_is_refused(run, tmp_path: Path, paper: str, data: str, said: str) -> None:
    code, _, err = run("study", "paper", paper, "--data", data, "-o", "pages")
    assert code == 1 and said in err and not (tmp_path / "pages").exists()
