"""The course of training as a figure."""

from __future__ import annotations

import pytest

from capmeter.errors import InputError
from capmeter.report.curves import training_figure

HISTORY = [
    {"epoch": epoch, "losses": {"tags": 1 / epoch, "arcs": 2 / epoch}, "scores": {"tau": tau, "accuracy": 0.9}}
    for epoch, tau in enumerate([0.1, 0.3, 0.2], start=1)
]


def test_losses_and_scores_are_drawn_by_epoch() -> None:
    pytest.importorskip("matplotlib")
    figure = training_figure(HISTORY, select="tau")
    loss, tau, accuracy = figure.axes
    assert [list(line.get_ydata()) for line in loss.lines] == [[1, 1 / 2, 1 / 3], [2, 1, 2 / 3]]
    assert list(tau.lines[0].get_ydata()) == [0.1, 0.3, 0.2]
    assert list(tau.lines[1].get_xdata()) == [2, 2]  # the selected epoch
    assert list(accuracy.lines[0].get_xdata()) == [1, 2, 3]
    assert "epoch 2" in [text.get_text() for text in tau.texts]


def test_a_run_without_an_epoch_has_no_curve() -> None:
    with pytest.raises(InputError, match="no epoch"):
        training_figure([])
