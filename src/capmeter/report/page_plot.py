"""A plot of whole systems on the page, which installed packages make: `find_system_plot` asks each of them.

A package adds one through the entry point group `capmeter.page_plots`, whose values are functions of the systems'
results that return a `SystemPlot`, or None where its scores are not among them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any

from capmeter.core.errors import InputError
from capmeter.evaluation.results import Results


@dataclass
class SystemPlot:
    """Captions as points (system, x, y), an ellipse for each system, and a table that summarises each."""

    x: str
    y: str
    caption: str
    heads: list[str]
    points: list[tuple[int, float, float]] = field(default_factory=list)
    ellipses: list[dict[str, Any]] = field(default_factory=list)
    rows: list[tuple[int, list[str]]] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """What the page plots, as JSON values."""
        return {"x": self.x, "y": self.y, "points": self.points, "ellipses": self.ellipses}


def find_system_plot(systems: Mapping[str, Results], *, human: str | None = None, seed: int = 0) -> SystemPlot | None:
    """The first plot that an installed package makes of these systems; None if there is none.

    Args:
        systems: name → results.
        human: the system of human captions, which the others are compared with.
        seed: of the sampled captions.

    Raises:
        InputError: no system is called `human`.
    """
    if human is not None and human not in systems:
        raise InputError(f"unknown system {human!r}; the systems are {', '.join(systems)}")
    plots = (entry.load()(systems, human=human, seed=seed) for entry in entry_points(group="capmeter.page_plots"))
    return next((plot for plot in plots if plot is not None), None)
