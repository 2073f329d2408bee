"""The course of a training run as a figure: losses and held-out scores by epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from capmeter.errors import InputError
from capmeter.report.figures import house_style, open_figure, series_style


@house_style()
def training_figure(history: Sequence[Mapping[str, Any]], *, select: str = "") -> Any:
    """A panel of losses and a panel for each score, over epochs; the selected epoch is marked.

    Args:
        history: the lines of a run's log: `epoch`, `losses` and `scores` by name.
        select: the score that selected the epoch.

    Raises:
        InputError: the run has no epoch yet.
    """
    if not history:
        raise InputError("curves of training: the log has no epoch; train at least one")
    scores = list(history[0]["scores"])
    figure, axes = open_figure(1, 1 + len(scores), width=3.6, height=3.0)
    epochs = [line["epoch"] for line in history]
    for number, name in enumerate(history[0]["losses"]):
        axes[0, 0].plot(epochs, [line["losses"][name] for line in history], label=name, **_line(number, epochs))
    axes[0, 0].set_title("loss")
    axes[0, 0].set_xlabel("epoch")
    if len(history[0]["losses"]) > 1:
        axes[0, 0].legend()
    best = max(history, key=lambda line: line["scores"][select])["epoch"] if select else None
    for number, name in enumerate(scores):
        panel = axes[0, 1 + number]
        panel.plot(epochs, [line["scores"][name] for line in history], **_line(number, epochs))
        panel.set_title(f"{name}, held out")
        panel.set_xlabel("epoch")
        if best is not None:
            panel.axvline(best, color="#808080", linewidth=0.8, linestyle=":")
    if best is not None:
        axes[0, 1 + scores.index(select)].annotate(
            f"epoch {best}", (best, 0.02), xycoords=("data", "axes fraction"), fontsize=8, color="#404040"
        )
    return figure


def _line(number: int, epochs: Sequence[int]) -> dict[str, Any]:
    style = series_style(number)
    if len(epochs) > 40:
        style["marker"] = ""
    return style
