"""Comparisons of systems as tables."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import astuple, fields
from typing import Any

from capmeter.core.messages import format_count
from capmeter.meta.comparison import SystemComparison, SystemDifference
from capmeter.report.figures import COLOURS, house_style, open_figure
from capmeter.report.score_table import name_items
from capmeter.report.tables import MetricName, Table, default_digits, format_scale, name_metrics
from capmeter.stats.significance import is_significant, significance_threshold

_Columns = list[tuple[str, Callable[[SystemDifference], str]]]
"""Headings, and what stands below them for each difference."""


def difference_table(comparison: SystemComparison, scale: float = 1, *, neighbours: bool = False) -> Table:
    """One row per metric and pair of systems: both scores, the difference with its interval, p, wins and losses.

    With `neighbours` only the pairs that follow each other in the metric's ranking.

    Args:
        comparison: of two systems or more.
        scale: by which scores are multiplied.
        neighbours: whether only neighbours of the ranking are shown.
    """
    many_systems, digits = len(comparison.systems) > 2, default_digits(scale)
    first_head, second_head = ("first score", "second score") if many_systems else comparison.systems
    pair_columns: _Columns = [("first", lambda each: each.first), ("second", lambda each: each.second)]
    holm_columns: _Columns = [("p, Holm", lambda each: _p(each.p_holm))]
    columns: _Columns = [
        *(pair_columns if many_systems else []),
        (first_head, lambda each: f"{scale * each.first_score:.{digits}f}"),
        (second_head, lambda each: f"{scale * each.second_score:.{digits}f}"),
        ("difference", lambda each: f"{scale * each.difference:+.{digits}f}"),
        (
            f"{100 * comparison.level:g}% interval",
            lambda each: f"[{scale * each.low:+.{digits}f}, {scale * each.high:+.{digits}f}]",
        ),
        ("p", lambda each: _p(each.p)),
        *(holm_columns if many_systems else []),
        ("win/tie/loss", lambda each: f"{each.wins}/{each.ties}/{each.losses}"),
    ]
    table_rows, short_names = [], _name_metrics(comparison)
    for metric_name, verdict in comparison.items():
        neighbour_pairs = itertools.pairwise(verdict.significance.order())
        differences = [verdict.between(*pair) for pair in neighbour_pairs] if neighbours else verdict.differences
        table_rows += [[short_names[metric_name], *(cell(each) for _, cell in columns)] for each in differences]
    heads = ["metric", *(head for head, _ in columns)]
    labels = 3 if many_systems else 1
    numeric = [False] * labels + [True] * (len(heads) - labels)
    return Table(_title(comparison, scale), heads, table_rows, numeric, _note(comparison))


def equal_length_table(comparison: SystemComparison, scale: float = 1) -> Table:
    """One row per metric and pair of systems: the difference of captions' scores, and what is left at equal length."""
    table_rows, short_names, digits = [], _name_metrics(comparison), default_digits(scale)
    for metric_name, pairs in comparison.equal_lengths.items():
        for difference in pairs:
            table_rows.append(
                [
                    short_names[metric_name],
                    difference.first,
                    difference.second,
                    f"{difference.words:+.1f}",
                    f"{scale * difference.difference:+.{digits}f}",
                    f"{scale * difference.at_equal_length:+.{digits}f}{' *' if difference.extrapolated else ''}",
                    f"[{scale * difference.low:+.{digits}f}, {scale * difference.high:+.{digits}f}]",
                    f"{100 * difference.at_equal_length / difference.difference:.0f} %" if difference.has_sign else "-",
                ]
            )
    columns = ["metric", "first", "second", "more words", "mean difference", "at equal length"]
    columns += [f"{100 * comparison.level:g}% interval", "left"]
    note = (
        "mean difference: of the captions' own scores; at equal length: the value at 0 of the regression of these "
        f"differences on the difference in words ({comparison.resamples:,} resamples of images); "
        "left: the difference at equal length as a share of the mean difference, if the interval of that is without 0"
    )
    if any(difference.extrapolated for pairs in comparison.equal_lengths.values() for difference in pairs):
        note += "; *: extrapolated, one system's captions are longer throughout"
    title = f"differences at equal length{format_scale(scale)}"
    return Table(title, columns, table_rows, [False] * 3 + [True] * 5, note)


def ranking_table(comparison: SystemComparison, scale: float = 1) -> Table:
    """One row per system, best first by the first metric: its scores, each with the rank of significance.

    The letters name the systems that a score is significantly better than, as in the tables of retrieval papers.
    """
    first_verdict, digits = next(iter(comparison.values())), default_digits(scale)
    order = first_verdict.significance.order()
    letters = {name: chr(ord("a") + k) if k < 26 else f"({k + 1})" for k, name in enumerate(order)}
    table_rows: list[list[str]] = []
    bold_cells: set[tuple[int, int]] = set()
    for name in order:
        table_row = [letters[name], name]
        for verdict in comparison.values():
            rank, score = verdict.significance.ranks()[name], verdict.significance.values[name]
            worse_letters = [
                letters[other] for other in order if other in verdict.significance.significantly_worse(name)
            ]
            if name in verdict.significance.best():
                bold_cells.add((len(table_rows), len(table_row) + 1))
            table_row += [
                str(rank),
                f"{scale * score:.{digits}f}{' ' + ''.join(worse_letters) if worse_letters else ''}",
            ]
        table_rows.append(table_row)
    columns = ["", "system", *(text for name in _name_metrics(comparison).values() for text in ("rank", name))]
    note = (
        f"rows: by {next(iter(_name_metrics(comparison).values()))}, best first; "
        "letters: significantly better than these systems (p after Holm's correction below "
        f"{significance_threshold(comparison.level):g}); a new rank begins where a system is significantly worse than "
        f"the best of the last; bold: the best, and all that are not significantly worse"
    )
    return Table(
        _title(comparison, scale),
        columns,
        table_rows,
        [False, False, *([True, False] * len(comparison))],
        note,
        bold_cells,
    )


def contrast_table(comparison: SystemComparison, metric: str, number: int, scale: float = 1) -> Table:
    """The captions of the first two systems whose scores differ most.

    Args:
        comparison: of two systems or more.
        metric: that orders the captions.
        number: of captions.
        scale: by which scores are multiplied.
    """
    (one, two), digits = comparison.systems[:2], default_digits(scale)
    rows: list[list[str]] = []
    for pair in comparison.most_different(metric, one, two, number):
        first_score, second_score = scale * pair["first_score"], scale * pair["second_score"]
        score_gap = f"{first_score - second_score:+.{digits}f}"
        rows.append([pair["id"], score_gap, f"{first_score:.{digits}f}", pair["first"]])
        rows.append(["", "", f"{second_score:.{digits}f}", pair["second"]])
        rows.extend(["", "", "", f"({reference_text})"] for reference_text in pair["references"][:1])
    title = f"the captions of {one} (above) and {two} (below) whose {metric} scores differ most, with one reference"
    title += format_scale(scale)
    note = "" if rows else f"none: no two captions differ under {metric}"
    return Table(title, ["id", "difference", metric, "caption"], rows, [False, True, True, False], note)


@house_style()
def difference_figure(comparison: SystemComparison) -> Any:
    """A panel per metric: every pair's difference with its interval, filled where it is significant."""
    metric_names, short_names = list(comparison), _name_metrics(comparison)
    system_pairs = [(difference.first, difference.second) for difference in comparison[metric_names[0]].differences]
    columns = min(3, len(metric_names))
    rows = -(-len(metric_names) // columns)
    longest_label = max(len(f"{first_name} − {second_name}") for first_name, second_name in system_pairs)
    panel_size = {"width": 3.2 + 0.07 * longest_label / columns, "height": 1.2 + 0.3 * len(system_pairs)}
    figure, axes = open_figure(rows, columns, **panel_size, share="y")
    for panel, metric_name in zip(axes.flat, metric_names, strict=False):
        panel.axvline(0, color="#808080", linewidth=1)
        for row_position, difference in enumerate(comparison[metric_name].differences):
            sure = is_significant(difference.p_holm, comparison.level)
            colour = COLOURS[0] if sure else COLOURS[-1]
            panel.plot([difference.low, difference.high], [row_position, row_position], color=colour)
            panel.plot(
                [difference.difference], [row_position], "o", color=colour, markerfacecolor=colour if sure else "white"
            )
        panel.set(
            title=short_names[metric_name],
            yticks=range(len(system_pairs)),
            yticklabels=[f"{first_name} − {second_name}" for first_name, second_name in system_pairs],
        )
        panel.set_ylim(len(system_pairs) - 0.4, -0.6)
        panel.set_xlabel("difference of the scores")
    for panel in axes.flat[len(metric_names) :]:
        panel.set_visible(False)
    correction_note = " after Holm's correction" if len(system_pairs) > 1 else ""
    figure.suptitle(
        f"{100 * comparison.level:g}% intervals; "
        f"filled: p below {significance_threshold(comparison.level):g}{correction_note}",
        fontsize=9,
        x=0.01,
        ha="left",
    )
    return figure


def difference_rows(comparison: SystemComparison) -> Table:
    """Every difference in full precision, for programs."""
    column_names = [each.name for each in fields(SystemDifference)]
    rows = [[name, *astuple(each)] for name, verdict in comparison.items() for each in verdict.differences]
    return Table("", ["metric", *column_names], rows, [])


def _title(comparison: SystemComparison, scale: float) -> str:
    captions = next(iter(comparison.captions.values()))
    images = format_count(len(set(captions.image_ids)), name_items(comparison.results.values()))
    caption_counts = f"{format_count(len(captions), 'caption')} of {images}"
    return f"{format_count(len(comparison.systems), 'system')}, {caption_counts} each{format_scale(scale)}"


def _note(comparison: SystemComparison) -> str:
    noun = name_items(comparison.results.values())
    test_description = f"paired permutation test by {noun} ({comparison.permutations:,} permutations)"
    if comparison.test == "bootstrap":
        test_description = f"paired bootstrap by {noun} ({comparison.resamples:,} resamples)"
    first_name = "the first" if len(comparison.systems) > 2 else comparison.systems[0]
    return (
        f"p: {test_description}; interval of the difference: {comparison.resamples:,} resamples of {noun}s (seed "
        f"{comparison.seed}); win/tie/loss: captions of {first_name}, by their own scores"
    )


def _name_metrics(comparison: SystemComparison) -> dict[str, MetricName]:
    """The metrics' short names."""
    return name_metrics(
        comparison, {name for name, verdict in comparison.items() if verdict.significance.lower_is_better}
    )


def _p(value: float) -> str:
    return f"{value:.4f}" if value >= 0.00005 else f"{value:.1e}"
