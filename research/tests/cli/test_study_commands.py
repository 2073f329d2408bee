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
    code, _, err = run("degradation", "nowhere.txt", "--plot", "x.gif")
    assert code == 2 and "x.gif" in err
