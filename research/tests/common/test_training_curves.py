"""Training curves: as a figure, and as files next to the logs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from capmeter_research.common.training_curves import CURVES, TrainingLog, save_curves, training_figure

from capmeter.core.errors import InputError

HISTORY = tuple(
    {"epoch": epoch, "losses": {"tags": 1 / epoch, "arcs": 2 / epoch}, "scores": {"tau": tau, "accuracy": 0.9}}
    for epoch, tau in enumerate([0.1, 0.3, 0.2], start=1)
)


def a_run(folder: Path, epoch: int | None = 2) -> Path:
    folder.mkdir(parents=True)
    (folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in HISTORY))
    if epoch is not None:
        (folder / "metrics.json").write_text(json.dumps({"epoch": epoch}))
    return folder


def test_losses_and_scores_by_epoch() -> None:
    pytest.importorskip("matplotlib")
    figure = training_figure(TrainingLog(Path("run"), HISTORY, 2))
    loss, tau, accuracy = figure.axes
    assert [list(line.get_ydata()) for line in loss.lines[:2]] == [[1, 1 / 2, 1 / 3], [2, 1, 2 / 3]]
    assert list(tau.lines[0].get_ydata()) == [0.1, 0.3, 0.2]
    assert list(tau.lines[1].get_xdata()) == [2, 2]  # the epoch whose weights were taken
    assert list(accuracy.lines[0].get_xdata()) == [1, 2, 3]
    assert "epoch 2 selected" in [text.get_text() for text in loss.texts]


def test_a_run_without_an_epoch_has_no_curve() -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(InputError, match="no epoch"):
        training_figure(TrainingLog(Path("run"), ()))


def test_the_curves_of_every_run_in_a_folder_are_written_once(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    runs = [a_run(tmp_path / "seed-0"), a_run(tmp_path / "seed-1", epoch=None)]
    assert save_curves(tmp_path) == [run / CURVES for run in runs]
    assert save_curves(tmp_path) == []
    later = (runs[0] / CURVES).stat().st_mtime + 10
    os.utime(runs[0] / "log.jsonl", (later, later))  # it went on
    assert save_curves(tmp_path) == [runs[0] / CURVES]


def test_a_folder_without_a_log(tmp_path: Path) -> None:
    assert save_curves(tmp_path) == []  # what is fitted from many starts has no epochs
