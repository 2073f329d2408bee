"""The course of training: `log.jsonl`, a line per epoch, `metrics.json` when it has ended, and curves as a figure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capmeter.core.errors import InputError
from capmeter.report.figures import house_style, open_figure, save_figures, series_style

LOG, METRICS = "log.jsonl", "metrics.json"
CURVES = "curves.png"
_PANELS = 3  # in a row


@dataclass(frozen=True)
class TrainingLog:
    """One run.

    folder: where it lies. history: the lines of its log, `epoch`, `losses` and `scores` (by name) among them. epoch:
    the one whose weights were taken; None while the run goes on.
    """

    folder: Path
    history: tuple[Mapping[str, Any], ...]
    epoch: int | None = None


def read_courses(folder: Path) -> tuple[TrainingLog, ...]:
    """The runs in a folder that `capmeter train` wrote, those of its subfolders included; training without epochs
    (`--restarts`) has none.
    """
    return tuple(_course(log_path) for log_path in sorted(folder.rglob(LOG)))


def _course(log_path: Path) -> TrainingLog:
    history = map(json.loads, log_path.read_text(encoding="utf-8").splitlines())
    try:
        epoch = int(json.loads((log_path.parent / METRICS).read_text(encoding="utf-8"))["epoch"])
    except (OSError, ValueError, TypeError, KeyError):  # not ended yet, or the mean of several runs
        epoch = None
    return TrainingLog(log_path.parent, tuple(history), epoch)


@house_style()
def training_figure(log: TrainingLog) -> Any:
    """A panel of losses and a panel for each score, over epochs; the selected epoch is marked.

    Raises:
        InputError: the run has no epoch yet.
    """
    history = log.history
    if not history:
        raise InputError(f"{log.folder}: the log has no epoch; train at least one")
    scores = list(history[0]["scores"])
    columns = min(_PANELS, 1 + len(scores))
    rows = -(-(1 + len(scores)) // columns)
    figure, axes = open_figure(rows, columns, width=3.4, height=2.8)
    panels = axes.ravel().tolist()
    epochs = [line["epoch"] for line in history]
    for number, curve_name in enumerate(history[0]["losses"]):
        panels[0].plot(
            epochs, [_value(line["losses"], curve_name) for line in history], label=curve_name, **_line(number, epochs)
        )
    panels[0].set_title("loss")
    if len(history[0]["losses"]) > 1:
        panels[0].legend(fontsize=7)
    for panel, curve_name in zip(panels[1:], scores, strict=False):
        panel.plot(epochs, [_value(line["scores"], curve_name) for line in history], **_line(0, epochs))
        panel.set_title(f"{curve_name}, held out")
    for number, panel in enumerate(panels):
        panel.set_visible(number <= len(scores))
        panel.set_xlabel("epoch")
        panel.xaxis.get_major_locator().set_params(integer=True)
        if log.epoch:
            panel.axvline(log.epoch, color="#808080", linewidth=0.8, linestyle=":")
    if log.epoch:
        panels[0].annotate(
            f"epoch {log.epoch} selected",
            (log.epoch, 0.5),
            xytext=(-3, 0),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            fontsize=8,
            color="#404040",
            ha="right" if log.epoch > len(history) / 2 else "left",
        )
    return figure


def save_curves(folder: Path) -> list[Path]:
    """Writes `curves.png` next to each log in a folder of training that is newer than its figure."""
    saved_paths = []
    for log in read_courses(folder):
        target = log.folder / CURVES
        is_stale = not target.exists() or target.stat().st_mtime < (log.folder / LOG).stat().st_mtime
        if log.history and is_stale:
            saved_paths += save_figures(training_figure(log), [target])
    return saved_paths


def _value(values: Mapping[str, Any], name: str) -> float:
    return float(values.get(name, "nan"))  # a gap in the line


def _line(number: int, epochs: Sequence[int]) -> dict[str, Any]:
    style = series_style(number)
    if len(epochs) > 40:
        style["marker"] = ""
    return style
