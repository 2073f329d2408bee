"""The scatter plot of whole systems: style over meaning, on the scale of human captions (SMURF, Figure 1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from capmeter.evaluation.base import Floats
from capmeter.report.figures import COLOURS, house_style, open_figure, series_style
from capmeter.report.tables import Table
from capmeter_research.papers.smurf.systems import SystemSummary

_LONGEST = 72


def system_table(systems: Mapping[str, SystemSummary]) -> Table:
    """One row per system: its means, the overlap with human captions, the penalty, the centroid caption."""
    columns = ["system", "captions", "SPARCS′", "SPURTS′", "H∩M / M", "penalty", "centroid caption"]
    table_rows = [
        [
            system_name,
            f"{len(system_summary.points):,}",
            f"{system_summary.mean[0]:.4f}",
            f"{system_summary.mean[1]:.4f}",
            f"{system_summary.overlap:.4f}",
            f"{system_summary.penalty:.3f}",
            system_summary.example,
        ]
        for system_name, system_summary in systems.items()
    ]
    note = "means in standard deviations of human captions; penalty: the sum of G"
    return Table("systems against people", columns, table_rows, [False, True, True, True, True, True, False], note)


def systems_to_dict(systems: Mapping[str, SystemSummary]) -> dict[str, Any]:
    """The same as JSON values, with covariances and outlines."""
    return {
        system_name: {
            "captions": len(each.points),
            "mean": each.mean.tolist(),
            "covariance": np.cov(each.points.T).tolist(),
            "overlap": each.overlap,
            "penalty": each.penalty,
            "centroid": {"id": each.components.ids[each.centroid], "caption": each.example},
            "outline": each.outline.tolist(),
        }
        for system_name, each in systems.items()
    }


def system_figure(systems: Mapping[str, SystemSummary], points: Mapping[str, Floats]) -> Any:
    """The figure of systems: points, ellipses and means.

    Args:
        systems: their summaries.
        points: of each system, as `sample_points` gives them.
    """
    figure, axes = open_figure(width=6.4, height=6.4 + 0.24 * len(systems))
    with house_style():
        panel = axes[0, 0]
        for system_index, (system_name, system) in enumerate(systems.items()):
            colour = COLOURS[system_index % len(COLOURS)]
            marker = series_style(system_index)["marker"]
            panel.scatter(*points[system_name].T, s=13, color=colour, alpha=0.55, linewidths=0, marker=marker, zorder=2)
            panel.fill(*system.outline.T, color=colour, alpha=0.10, linewidth=0, zorder=1)
            panel.plot(*np.vstack([system.outline, system.outline[:1]]).T, color=colour, linewidth=1.4, zorder=3)
            panel.scatter(
                *system.mean,
                s=90,
                color=colour,
                marker=marker,
                edgecolors="black",
                linewidths=1.0,
                zorder=5,
                label=f"{system_name}: overlap {system.overlap:.2f} · {_quoted(system)}",
            )
        _name_means(panel, systems)
        panel.set_aspect("equal", adjustable="datalim")
        panel.set_xlabel("SPARCS′: meaning, in standard deviations of human captions")
        panel.set_ylabel("SPURTS′: style, in standard deviations of human captions")
        panel.set_title(f"{len(next(iter(points.values())))} images sampled; ellipses of 1.15 standard deviations")
        figure.legend(loc="outside lower left", ncols=1, handletextpad=0.3, scatterpoints=1)
    return figure


def _name_means(panel: Any, systems: Mapping[str, SystemSummary]) -> None:
    """Each name beside its mean, moved away from the centre of all means so that neighbours do not overlap."""
    means = np.array([system.mean for system in systems.values()])
    overall_mean = means.mean(axis=0)
    for system_index, (system_name, mean) in enumerate(zip(systems, means, strict=True)):
        mean_offset = mean - overall_mean
        offset_length = float(np.hypot(*mean_offset)) or 1.0
        offset = 16 * mean_offset / offset_length
        panel.annotate(
            system_name,
            mean,
            xytext=tuple(offset),
            textcoords="offset points",
            ha="left" if offset[0] >= 0 else "right",
            va="bottom" if offset[1] >= 0 else "top",
            color=COLOURS[system_index % len(COLOURS)],
            fontweight="bold",
            zorder=6,
            bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.8},
        )


def _quoted(system: SystemSummary) -> str:
    """The centroid caption, in quotation marks and shortened."""
    caption_text = " ".join(system.example.split())
    return f"“{caption_text if len(caption_text) <= _LONGEST else caption_text[: _LONGEST - 1].rstrip() + '…'}”"
