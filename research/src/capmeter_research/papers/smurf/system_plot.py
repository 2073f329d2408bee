"""Whole systems by meaning and style, for the page: Figure 1 of SMURF, if its scores exist.

The points are SMURF's standardised parts if `smurf` was scored, else raw SPARCS and SPURTS. The summary of a system
(ellipse, overlap with human captions, centroid caption, penalty) is defined in `papers.smurf.systems`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from capmeter.core.errors import InputError
from capmeter.evaluation.base import Floats
from capmeter.evaluation.results import Results
from capmeter.report.page_plot import SystemPlot
from capmeter_research.papers.smurf.systems import (
    DEVIATIONS,
    ellipse_outline,
    ellipse_overlap,
    nearest_to_mean,
    require_human_system,
)


def system_plot(
    systems: Mapping[str, Results], *, human: str | None = None, sample: int = 150, seed: int = 0
) -> SystemPlot | None:
    """The plot of the systems that were scored by SMURF or its parts; None if there is none.

    `human` is the system of human captions: with it the table has each ellipse's overlap with the human one.
    """
    if human is not None:
        require_human_system(systems, human)
    fused = all(_scored_name(results, "smurf") for results in systems.values())
    system_points = {system_name: _points(results, fused) for system_name, results in systems.items()}
    outlines: dict[str, Floats] = {}
    for system_name, points in system_points.items():
        try:
            outlines[system_name] = np.empty((0, 2)) if points is None else ellipse_outline(points, name=system_name)
        except InputError:  # too few captions, or all alike: this system has no ellipse
            continue
    plotted_systems = [system_name for system_name, outline in outlines.items() if len(outline)]
    if not plotted_systems:
        return None
    unit = ", in σ of human captions" if fused else ""
    optional_heads = [*(["H∩M / M"] if human in plotted_systems else []), *(["penalty"] if fused else [])]
    plot = SystemPlot(
        f"meaning: SPARCS{unit}",
        f"style: SPURTS{unit}",
        f"Each ellipse spans {DEVIATIONS} standard deviations around a system's mean, the large dot (Figure 1 of "
        f"SMURF). Small dots are captions, at most {sample} of each system.",
        ["SPARCS", "SPURTS", *optional_heads, "Centroid caption"],
    )
    random = np.random.default_rng(seed)
    for system_index, (system_name, results) in enumerate(systems.items()):
        points = system_points[system_name]
        if points is None or system_name not in plotted_systems:
            continue
        mean, outline = points.mean(axis=0), outlines[system_name]
        sampled_rows = np.sort(random.permutation(len(points))[:sample])
        plot.points += [(system_index, round(float(x), 4), round(float(y), 4)) for x, y in points[sampled_rows]]
        closed_outline = np.vstack([outline, outline[:1]]).round(4).tolist()
        plot.ellipses.append({"system": system_index, "mean": mean.round(4).tolist(), "outline": closed_outline})
        cells = [f"{value:.3f}".replace("-", "−") for value in mean]
        if human in plotted_systems:
            cells.append(f"{ellipse_overlap(outline, outlines[human]):.3f}")
        if fused:
            penalty = float(results[str(_scored_name(results, "smurf"))].part_items["G"].array.sum())
            cells.append(f"{penalty:.2f}".replace("-", "−"))
        plot.rows.append((system_index, [*cells, _centroid_caption(results, points)]))
    return plot


def _scored_name(results: Results, metric: str) -> str | None:
    """The name, with its parameters, under which a metric was scored."""
    return next((name for name in results if name.partition("(")[0] == metric), None)


def _points(results: Results, fused: bool) -> Floats | None:
    if fused:
        parts = results[str(_scored_name(results, "smurf"))].part_items
        return np.stack([parts["sparcs"].array, parts["spurts"].array], axis=1)
    metric_names = [_scored_name(results, metric) for metric in ("sparcs", "spurts")]
    if None in metric_names:
        return None
    return np.stack([results[str(metric_name)].items.array for metric_name in metric_names], axis=1)


def _centroid_caption(results: Results, points: Floats) -> str:
    """The caption nearest to the mean."""
    nearest_row = nearest_to_mean(points)
    caption_id = results.ids.names[nearest_row]
    return caption_id if results.captions is None else results.captions[caption_id].candidate
