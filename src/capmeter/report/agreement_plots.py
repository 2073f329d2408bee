"""Plots of agreement with human judgments: intervals, and score distributions."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np

from capmeter.judgments.prepared import Floats, JudgedPairs, Points, Systems
from capmeter.meta.agreement import AgreementTable
from capmeter.report.agreement import format_judgments
from capmeter.report.figures import COLOURS, house_style, open_figure

LEVELS = 6
PANELS = 4
PEOPLE = "#808080"


@house_style()
def agreement_figure(table: AgreementTable) -> Any:
    """Each metric's value and interval, best on top; a hollow diamond is a published value with the same
    encoder. Ranks share a colour.

    A grey band is the human level with its interval, where the benchmark has one.
    """
    shown_results = [row for row in table.results if row.value is not None]
    published = [table.find("published", row.metric) for row in shown_results]
    figure, axes = open_figure(height=1.1 + 0.32 * len(shown_results), width=6.4)
    axis = axes[0, 0]
    diamond = {"markersize": 9, "markerfacecolor": "none", "color": "#404040", "markeredgewidth": 1}
    for row_position, (row, published_row) in enumerate(zip(shown_results, published, strict=True)):
        colour = COLOURS[((row.rank or 1) - 1) % len(COLOURS)]
        axis.plot(
            [row.low, row.high], [row_position, row_position], color=colour, linewidth=2.4, solid_capstyle="round"
        )
        axis.plot(row.value, row_position, "o", color=colour, markersize=6)
        if published_row is not None:
            axis.plot(published_row.value, row_position, "D", **diamond)
    for human in table.of("human_level"):
        axis.axvspan(human.low, human.high, color=PEOPLE, alpha=0.25, linewidth=0)
        axis.axvline(human.value, color=PEOPLE, linewidth=1.2)
        axis.annotate(
            f"human {human.value:.1f}",
            (human.value, 1),
            xycoords=("data", "axes fraction"),
            xytext=(2, -2),
            textcoords="offset points",
            va="top",
            fontsize=7,
            color="#404040",
        )
    axis.set_yticks(range(len(shown_results)), [f"{row.metric}  ({row.rank})" for row in shown_results])
    axis.invert_yaxis()
    axis.margins(y=0.5 / max(1, len(shown_results)))
    axis.grid(axis="y", visible=False)
    diamond_note = "; diamond: published" if any(published) else ""
    axis.set_xlabel(f"{table.protocol.statistic} x 100, {table.level:.0%} interval (rank in parentheses{diamond_note})")
    judgment_count = format_judgments(table.judgments, len(table.judgments))
    axis.set_title(f"{table.benchmark}, {table.protocol.name}: {judgment_count}")
    return figure


@house_style()
def distribution_figure(table: AgreementTable) -> Any:
    """A metric's scores by human rating; of pairs, the difference of their scores by the preferred side."""
    scores = {row.metric: table.items[row.metric] for row in table.results if row.value is not None}
    columns = ceil(len(scores) / ceil(len(scores) / PANELS))
    figure, axes = open_figure(ceil(len(scores) / columns), columns, width=3.2, height=2.8)
    for axis in axes.ravel()[len(scores) :]:
        axis.set_visible(False)
    for axis, (metric_name, metric_scores) in zip(axes.ravel(), scores.items(), strict=False):
        axis.set_title(metric_name)
        if isinstance(table.judgments, JudgedPairs):
            _gaps(axis, table.judgments, metric_scores)
        elif isinstance(table.judgments, Systems):
            _scatter(axis, table.judgments, metric_scores)
        elif isinstance(table.judgments, Points):
            _by_rating(axis, table.judgments, metric_scores)
    figure.suptitle(f"{table.benchmark}: scores and human judgment", x=0.01, ha="left", fontsize=11, fontweight="bold")
    return figure


def _by_rating(axis: Any, points: Points, metric_scores: Floats) -> None:
    """A box for each level of rating (whiskers: 5 and 95 %); continuous ratings fall into equal ranges."""
    human_ratings, scores = points.human, metric_scores[points.rows]
    rating_levels = np.unique(human_ratings)
    if len(rating_levels) > LEVELS:
        edges = np.linspace(human_ratings.min(), human_ratings.max(), LEVELS)
        rating_levels = (edges[:-1] + edges[1:]) / 2
        human_ratings = rating_levels[np.clip(np.searchsorted(edges, human_ratings, side="right") - 1, 0, LEVELS - 2)]
    score_groups = [scores[human_ratings == level] for level in rating_levels]
    boxes = axis.boxplot(
        score_groups,
        whis=(5, 95),
        widths=0.6,
        showfliers=False,
        patch_artist=True,
        medianprops={"color": COLOURS[1], "linewidth": 2},
    )
    for box in boxes["boxes"]:
        box.set(facecolor=COLOURS[5], alpha=0.45, edgecolor=COLOURS[0])
    axis.set_xticks(
        range(1, len(rating_levels) + 1),
        [f"{level:.3g}\n{len(group):,}" for level, group in zip(rating_levels, score_groups, strict=True)],
    )
    axis.set_xlabel("human rating (and how many)")
    axis.set_ylabel("score")


def _gaps(axis: Any, pairs: JudgedPairs, metric_scores: Floats) -> None:
    """The better caption's score minus the other's: right of 0 the metric agrees."""
    score_gaps = (metric_scores[pairs.first] - metric_scores[pairs.second]) * pairs.better
    reach = float(np.quantile(np.abs(score_gaps), 0.99)) or 1.0
    edges = np.linspace(-reach, reach, 41)
    side_masks = {"agrees": score_gaps > 0, "disagrees": score_gaps < 0, "equal": score_gaps == 0}
    shown = {name: np.clip(score_gaps[chosen], -reach, reach) for name, chosen in side_masks.items() if chosen.any()}
    colours = {"agrees": COLOURS[0], "disagrees": COLOURS[1], "equal": COLOURS[7]}
    axis.hist(
        list(shown.values()),
        edges,
        stacked=True,
        color=[colours[name] for name in shown],
        label=[f"{name} {len(found):,}" for name, found in shown.items()],
    )
    axis.axvline(0, color="#404040", linewidth=0.8)
    axis.set_xlabel("better minus worse")
    axis.set_ylabel("pairs")
    axis.legend(loc="upper left", fontsize=7, handlelength=1)


def _scatter(axis: Any, systems: Systems, metric_scores: Floats) -> None:
    axis.plot(metric_scores, systems.human, "o", color=COLOURS[0])
    for system_name, x, y in zip(systems.names, metric_scores, systems.human, strict=True):
        axis.annotate(
            system_name if len(system_name) <= 12 else system_name[:11] + "…",
            (x, y),
            fontsize=5.5,
            xytext=(2, 2),
            textcoords="offset points",
            color="#404040",
        )
    axis.set_xlabel("score")
    axis.set_ylabel(systems.protocol.judgments)
