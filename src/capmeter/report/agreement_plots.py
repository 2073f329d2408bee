"""Plots of agreement with human judgments: intervals, score distributions, pairs of metrics, numbers of references."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from math import ceil
from typing import Any, ParamSpec

import numpy as np

from capmeter.judgments.prepared import Floats, JudgedPairs, Points, Systems
from capmeter.meta.agreement import AgreementTable
from capmeter.meta.complementarity import varying_scores
from capmeter.report.agreement import format_judgments
from capmeter.report.figures import COLOURS, house_style, open_figure, series_style
from capmeter.stats.significance import is_significant

LEVELS = 6
PANELS = 4
PEOPLE = "#808080"
Arguments = ParamSpec("Arguments")


def styled(draw: Callable[Arguments, Any]) -> Callable[Arguments, Any]:
    """Draws in the house style: titles and legends take the settings of the moment they are made."""

    @wraps(draw)
    def styled_draw(*given: Arguments.args, **named: Arguments.kwargs) -> Any:
        with house_style():
            return draw(*given, **named)

    return styled_draw


@styled
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


@styled
def distribution_figure(table: AgreementTable) -> Any:
    """A metric's scores by human rating; of pairs, the difference of their scores by the preferred side."""
    scores = varying_scores(table)
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


@styled
def correlation_figure(table: AgreementTable) -> Any:
    """Spearman's ρ of every two metrics on the judged captions."""
    metric_names = tuple(varying_scores(table))
    values = np.eye(len(metric_names))
    for row in table.of("spearman"):
        i, j = metric_names.index(row.metric), metric_names.index(row.other)
        values[i, j] = values[j, i] = (row.value or 0.0) / 100
    return _heat_map(metric_names, values, f"{table.benchmark}: Spearman's ρ between metrics", "{:.2f}", None, 1.0)


@styled
def combination_figure(table: AgreementTable) -> Any:
    """The agreement of each metric (diagonal) and of each sum of two; * where the sum is significantly better."""
    metric_names = tuple(varying_scores(table))
    values = np.diag([table[name].value or 0.0 for name in metric_names])
    marks = {}
    for gain in table.of("gains"):
        i = metric_names.index(gain.other)
        j = metric_names.index(gain.metric.removeprefix(f"{gain.other} + "))
        values[i, j] = values[j, i] = table.of("combinations", gain.metric)[0].value or 0.0
        if is_significant(1.0 if gain.p is None else gain.p, table.level) and (gain.value or 0.0) > 0:
            marks[i, j] = marks[j, i] = "*"
    title = f"{table.benchmark}: sums of two metrics,\n{table.protocol.statistic} x 100 (* better than both)"
    return _heat_map(metric_names, values, title, "{:.1f}", marks, None)


def _heat_map(
    metric_names: Sequence[str],
    value_table: Floats,
    title: str,
    form: str,
    marks: dict[tuple[int, int], str] | None,
    top: float | None,
) -> Any:
    size = 1.6 + 0.62 * len(metric_names)
    figure, axes = open_figure(width=max(4.2, size + 0.9), height=max(3.2, size))
    axis = axes[0, 0]
    image = axis.imshow(value_table, vmax=top)
    low, high = image.get_clim()
    for i in range(len(metric_names)):
        for j in range(len(metric_names)):
            is_bright = (value_table[i, j] - low) > 0.55 * (high - low)
            cell_text = form.format(value_table[i, j]) + (marks or {}).get((i, j), "")
            axis.text(j, i, cell_text, ha="center", va="center", fontsize=8, color="#202020" if is_bright else "white")
    axis.set_xticks(range(len(metric_names)), metric_names, rotation=40, ha="right")
    axis.set_yticks(range(len(metric_names)), metric_names)
    axis.grid(visible=False)
    axis.spines[:].set_visible(False)
    axis.set_title(title)
    return figure


@styled
def curve_figure(table: AgreementTable) -> Any:
    """Agreement by number of references: the mean and range over the samples."""
    figure, axes = open_figure(width=5.6, height=3.6)
    axis = axes[0, 0]
    rows = [row for row in table.of("references_curve") if row.subset == "all"]
    numbers = sorted({row.references or 0 for row in rows})
    for series_index, metric_name in enumerate(dict.fromkeys(row.metric for row in rows)):
        style = series_style(series_index)
        means, lows, highs = zip(
            *((row.value, row.low, row.high) for row in rows if row.metric == metric_name), strict=True
        )
        axis.plot(numbers, means, label=metric_name, **style)
        axis.fill_between(numbers, lows, highs, color=style["color"], alpha=0.15, linewidth=0)
    if max(numbers) > 12:
        axis.set_xscale("log")
    axis.set_xticks(numbers, [str(number) for number in numbers])
    axis.minorticks_off()
    axis.set_xlabel("references of each image")
    axis.set_ylabel(f"{table.protocol.statistic} x 100")
    axis.set_title(f"{table.benchmark}: mean and range of {rows[0].n} samples")
    axis.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return figure
