"""Training curves: losses and held-out scores by epoch, as a figure and for the page."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capmeter.core.errors import InputError
from capmeter.core.training_log import LOG, TrainingLog, read_courses
from capmeter.report.figures import figure_bytes, house_style, open_figure, save_figure, series_style

CURVES = "curves.png"
_PANELS = 3  # in a row


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


@dataclass(frozen=True)
class EmbeddedCurves:
    """The curves of a run on the page: the run's name, a summary in words, and the figure as a data: address."""

    name: str
    summary: str
    source: str


def embed_curves(folder: Path) -> list[EmbeddedCurves]:
    """The curves of every run in a folder of `capmeter train`, for the page; an `InputError` if there is no run."""
    logs = read_courses(folder)
    if not logs:
        raise InputError(f"{folder}: no {LOG} in it; expected the --output folder of capmeter train")
    curves = []
    for log in logs:
        subfolder = log.folder.relative_to(folder)
        run_name = folder.resolve().name if subfolder == Path() else f"{folder.resolve().name}/{subfolder}"
        figure_content = base64.b64encode(figure_bytes(training_figure(log), "svg")).decode("ascii")
        curves.append(EmbeddedCurves(run_name, _summarise(log), f"data:image/svg+xml;base64,{figure_content}"))
    return curves


def _summarise(log: TrainingLog) -> str:
    """The run in a sentence, as the figure's alternative text."""
    selected_line = next((line for line in log.history if line["epoch"] == log.epoch), log.history[-1])
    scores = ", ".join(f"{score_name} {value:.4g}" for score_name, value in selected_line["scores"].items())
    epoch_text = f"epoch {log.epoch} was selected" if log.epoch else "the run has not ended; its last epoch"
    noun = "epoch" if len(log.history) == 1 else "epochs"
    return f"{len(log.history)} {noun}; {epoch_text}" + (f": {scores}" if scores else "")


def save_curves(folder: Path) -> list[Path]:
    """Writes `curves.png` next to each log in a folder of training that is newer than its figure."""
    saved_paths = []
    for log in read_courses(folder):
        target = log.folder / CURVES
        is_stale = not target.exists() or target.stat().st_mtime < (log.folder / LOG).stat().st_mtime
        if log.history and is_stale:
            saved_paths.append(save_figure(training_figure(log), target))
    return saved_paths


def _value(values: Mapping[str, Any], name: str) -> float:
    return float(values.get(name, "nan"))  # a gap in the line


def _line(number: int, epochs: Sequence[int]) -> dict[str, Any]:
    style = series_style(number)
    if len(epochs) > 40:
        style["marker"] = ""
    return style
