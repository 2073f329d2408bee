"""Plots of agreement with human judgments: intervals, score distributions, pairs of metrics, numbers of references."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from math import ceil
from typing import Any, ParamSpec

import numpy as np

from capmeter.judgments.prepared import Floats, JudgedPairs, Points, Systems
from capmeter.meta.agreement import AgreementReport
from capmeter.meta.complementarity import MetricPair, rank_correlations, varying_scores
from capmeter.meta.reference_curves import ReferenceCurve
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
def agreement_figure(report: AgreementReport) -> Any:
    """Each metric's value and interval, best on top; a hollow diamond is a published value with the same
    encoder. Ranks share a colour.

    A grey band is the human level with its interval, where the benchmark has one.
    """
    shown_results = [each for each in report.results if each.value is not None]
    figure, axes = open_figure(height=1.1 + 0.32 * len(shown_results), width=6.4)
    axis = axes[0, 0]
    for row_position, each in enumerate(shown_results):
        value, low, high = each.value or 0.0, each.low or 0.0, each.high or 0.0
        colour = COLOURS[((each.rank or 1) - 1) % len(COLOURS)]
        axis.plot([low, high], [row_position, row_position], color=colour, linewidth=2.4, solid_capstyle="round")
        axis.plot(value, row_position, "o", color=colour, markersize=6)
        if each.published and each.published.agrees:
            axis.plot(
                each.published.value,
                row_position,
                "D",
                markersize=9,
                markerfacecolor="none",
                color="#404040",
                markeredgewidth=1,
            )
    if report.human is not None:
        axis.axvspan(report.human.low, report.human.high, color=PEOPLE, alpha=0.25, linewidth=0)
        axis.axvline(report.human.value, color=PEOPLE, linewidth=1.2)
        axis.annotate(
            f"human {report.human.value:.1f}",
            (report.human.value, 1),
            xycoords=("data", "axes fraction"),
            xytext=(2, -2),
            textcoords="offset points",
            va="top",
            fontsize=7,
            color="#404040",
        )
    axis.set_yticks(range(len(shown_results)), [f"{each.metric}  ({each.rank})" for each in shown_results])
    axis.invert_yaxis()
    axis.margins(y=0.5 / max(1, len(shown_results)))
    axis.grid(axis="y", visible=False)
    diamond = "; diamond: published" if any(each.published and each.published.agrees for each in shown_results) else ""
    axis.set_xlabel(f"{report.protocol.statistic} x 100, {report.level:.0%} interval (rank in parentheses{diamond})")
    judgment_count = format_judgments(report, len(report.judgments))
    axis.set_title(f"{report.benchmark}, {report.protocol.name}: {judgment_count}")
    return figure


@styled
def distribution_figure(report: AgreementReport) -> Any:
    """A metric's scores by human rating; of pairs, the difference of their scores by the preferred side."""
    scores = varying_scores(report)
    columns = ceil(len(scores) / ceil(len(scores) / PANELS))
    figure, axes = open_figure(ceil(len(scores) / columns), columns, width=3.2, height=2.8)
    for axis in axes.ravel()[len(scores) :]:
        axis.set_visible(False)
    for axis, (metric_name, metric_scores) in zip(axes.ravel(), scores.items(), strict=False):
        axis.set_title(metric_name)
        if isinstance(report.judgments, JudgedPairs):
            _gaps(axis, report.judgments, metric_scores)
        elif isinstance(report.judgments, Systems):
            _scatter(axis, report.judgments, metric_scores)
        elif isinstance(report.judgments, Points):
            _by_rating(axis, report.judgments, metric_scores)
    figure.suptitle(f"{report.benchmark}: scores and human judgment", x=0.01, ha="left", fontsize=11, fontweight="bold")
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
def correlation_figure(report: AgreementReport) -> Any:
    """Spearman's ρ of every two metrics on the judged captions."""
    metric_names, correlation_table = rank_correlations(report)
    return _heat_map(
        metric_names, correlation_table, f"{report.benchmark}: Spearman's ρ between metrics", "{:.2f}", None, 1.0
    )


@styled
def combination_figure(report: AgreementReport, combinations: Sequence[MetricPair]) -> Any:
    """The agreement of each metric (diagonal) and of each sum of two; * where the sum is significantly better."""
    metric_names = tuple(varying_scores(report))
    value_table = np.diag([report[name].value or 0.0 for name in metric_names])
    marks = {}
    for metric_pair in combinations:
        i, j = metric_names.index(metric_pair.first), metric_names.index(metric_pair.second)
        value_table[i, j] = value_table[j, i] = metric_pair.agreement.value or 0.0
        if is_significant(metric_pair.gain.p, report.level) and metric_pair.gain.value > 0:
            marks[i, j] = marks[j, i] = "*"
    title = f"{report.benchmark}: sums of two metrics,\n{report.protocol.statistic} x 100 (* better than both)"
    return _heat_map(metric_names, value_table, title, "{:.1f}", marks, None)


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
def curve_figure(curve: ReferenceCurve) -> Any:
    """Agreement by number of references: the mean and range over the samples."""
    figure, axes = open_figure(width=5.6, height=3.6)
    axis = axes[0, 0]
    for series_index, (metric_name, metric_values) in enumerate(curve.values.items()):
        style = series_style(series_index)
        axis.plot(curve.numbers, metric_values.mean(axis=1), label=metric_name, **style)
        axis.fill_between(
            curve.numbers,
            metric_values.min(axis=1),
            metric_values.max(axis=1),
            color=style["color"],
            alpha=0.15,
            linewidth=0,
        )
    if max(curve.numbers) > 12:
        axis.set_xscale("log")
    axis.set_xticks(curve.numbers, [str(reference_count) for reference_count in curve.numbers])
    axis.minorticks_off()
    axis.set_xlabel("references of each image")
    axis.set_ylabel(f"{curve.statistic} x 100")
    sample_count = next(iter(curve.values.values())).shape[1]
    axis.set_title(f"{curve.benchmark}: mean and range of {sample_count} samples")
    axis.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return figure
