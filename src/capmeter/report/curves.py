"""The course of training as a figure: losses and held-out scores by epoch."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capmeter.errors import InputError
from capmeter.learning.course import LOG, Course, read_courses
from capmeter.report.figures import figure_bytes, house_style, open_figure, save_figure, series_style

CURVES = "curves.png"
_PANELS = 3  # beside each other


@house_style()
def training_figure(course: Course) -> Any:
    """A panel of losses and a panel for each score, over epochs; the selected epoch is marked.

    Raises:
        InputError: the run has no epoch yet.
    """
    history = course.history
    if not history:
        raise InputError(f"{course.folder}: the log has no epoch; train at least one")
    scores = list(history[0]["scores"])
    columns = min(_PANELS, 1 + len(scores))
    rows = -(-(1 + len(scores)) // columns)
    figure, axes = open_figure(rows, columns, width=3.4, height=2.8)
    panels = axes.ravel().tolist()
    epochs = [line["epoch"] for line in history]
    for number, name in enumerate(history[0]["losses"]):
        panels[0].plot(epochs, [_value(line["losses"], name) for line in history], label=name, **_line(number, epochs))
    panels[0].set_title("loss")
    if len(history[0]["losses"]) > 1:
        panels[0].legend(fontsize=7)
    for panel, name in zip(panels[1:], scores, strict=False):
        panel.plot(epochs, [_value(line["scores"], name) for line in history], **_line(0, epochs))
        panel.set_title(f"{name}, held out")
    for number, panel in enumerate(panels):
        panel.set_visible(number <= len(scores))
        panel.set_xlabel("epoch")
        panel.xaxis.get_major_locator().set_params(integer=True)
        if course.epoch:
            panel.axvline(course.epoch, color="#808080", linewidth=0.8, linestyle=":")
    if course.epoch:
        panels[0].annotate(
            f"epoch {course.epoch} taken",
            (course.epoch, 0.5),
            xytext=(-3, 0),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            fontsize=8,
            color="#404040",
            ha="right" if course.epoch > len(history) / 2 else "left",
        )
    return figure


@dataclass(frozen=True)
class Drawn:
    """The curves of a run on the page: the run's name, what they show, and the picture as a data: address."""

    name: str
    said: str
    source: str


def curves_of(folder: Path) -> list[Drawn]:
    """The curves of every run in a folder of `capmeter train`, for the page; an `InputError` if there is no run."""
    courses = read_courses(folder)
    if not courses:
        raise InputError(f"{folder}: no {LOG} in it; expected the --output folder of capmeter train")
    drawn = []
    for course in courses:
        place = course.folder.relative_to(folder)
        name = folder.resolve().name if place == Path() else f"{folder.resolve().name}/{place}"
        content = base64.b64encode(figure_bytes(training_figure(course), "svg")).decode("ascii")
        drawn.append(Drawn(name, _said(course), f"data:image/svg+xml;base64,{content}"))
    return drawn


def _said(course: Course) -> str:
    """The course in a sentence, for those who do not see the picture."""
    last = course.history[-1]
    taken = next((line for line in course.history if line["epoch"] == course.epoch), last)
    scores = ", ".join(f"{name} {value:.4g}" for name, value in taken["scores"].items())
    which = f"epoch {course.epoch} was taken" if course.epoch else "the run has not ended; its last epoch"
    noun = "epoch" if len(course.history) == 1 else "epochs"
    return f"{len(course.history)} {noun}; {which}" + (f": {scores}" if scores else "")


def draw_curves(folder: Path) -> list[Path]:
    """Draws `curves.png` beside each log in a folder of training that is newer than its picture."""
    drawn = []
    for course in read_courses(folder):
        target = course.folder / CURVES
        stale = not target.exists() or target.stat().st_mtime < (course.folder / LOG).stat().st_mtime
        if course.history and stale:
            drawn.append(save_figure(training_figure(course), target))
    return drawn


def _value(values: Mapping[str, Any], name: str) -> float:
    return float(values.get(name, "nan"))  # a gap in the line


def _line(number: int, epochs: Sequence[int]) -> dict[str, Any]:
    style = series_style(number)
    if len(epochs) > 40:
        style["marker"] = ""
    return style
