"""Comparisons of systems as tables."""

from __future__ import annotations

import itertools
from dataclasses import astuple, fields
from typing import Any

from capmeter.core.messages import format_count
from capmeter.meta.comparison import EQUAL, SystemComparison, SystemDifference
from capmeter.report.figures import COLOURS, house_style, open_figure
from capmeter.report.metric_names import MetricName
from capmeter.report.tables import Table
from capmeter.stats.significance import is_significant, significance_threshold

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def difference_table(comparison: SystemComparison, digits: int = 4, *, neighbours: bool = False) -> Table:
    """One row per metric and pair of systems: both scores, the difference with its interval, p, wins and losses.

    With `neighbours` only the pairs that follow each other in the metric's ranking.
    """
    many = len(comparison.systems) > 2
    rows = []
    for name, verdict in comparison.items():
        order = [each.system for each in verdict.ranking]
        differences = verdict.differences
        if neighbours:
            differences = [verdict.between(one, two) for one, two in itertools.pairwise(order)]
        for each in differences:
            cells = [
                f"{each.first_score:.{digits}f}",
                f"{each.second_score:.{digits}f}",
                f"{each.difference:+.{digits}f}",
                f"[{each.low:+.{digits}f}, {each.high:+.{digits}f}]",
                _p(each.p),
                *([_p(each.p_holm)] if many else []),
                f"{each.wins}/{each.ties}/{each.losses}",
            ]
            rows.append([MetricName(name), *([each.first, each.second] if many else []), *cells])
    one, two = ("first", "second") if many else comparison.systems
    columns = ["metric", *(["first", "second"] if many else [])]
    columns += [f"{one} score" if many else one, f"{two} score" if many else two]
    columns += ["difference", f"{100 * comparison.level:g}% interval", "p", *(["p, Holm"] if many else [])]
    columns.append("win/tie/loss")
    words = 3 if many else 1
    return Table(
        _title(comparison), columns, rows, [False] * words + [True] * (len(columns) - words), _note(comparison)
    )


def equal_length_table(comparison: SystemComparison, digits: int = 4) -> Table:
    """One row per metric and pair of systems: the difference of captions' scores, and what is left at equal length."""
    rows = []
    for name, pairs in comparison.equal_lengths.items():
        for each in pairs:
            share = each.at_equal_length / each.difference if each.difference else None
            rows.append(
                [
                    MetricName(name),
                    each.first,
                    each.second,
                    f"{each.words:+.1f}",
                    f"{each.difference:+.{digits}f}",
                    f"{each.at_equal_length:+.{digits}f}{' *' if each.extrapolated else ''}",
                    f"[{each.low:+.{digits}f}, {each.high:+.{digits}f}]",
                    "-" if share is None else f"{100 * share:.0f} %",
                ]
            )
    columns = ["metric", "first", "second", "more words", "mean difference", "at equal length"]
    columns += [f"{100 * comparison.level:g}% interval", "left"]
    note = (
        "mean difference: of the captions' own scores; at equal length: the value at 0 of the regression of these "
        f"differences on the difference in words ({comparison.resamples:,} resamples of images); "
        "left: the difference at equal length as a share of the mean difference"
    )
    if any(each.extrapolated for pairs in comparison.equal_lengths.values() for each in pairs):
        note += "; *: extrapolated, one system's captions are longer throughout"
    return Table("differences at equal length", columns, rows, [False] * 3 + [True] * 5, note)


def ranking_table(comparison: SystemComparison, digits: int = 4) -> Table:
    """One row per system, best first by the first metric: its scores, each with the rank of significance.

    The letters name the systems that a score is significantly better than, as in the tables of retrieval papers.
    """
    first = next(iter(comparison.values()))
    order = [each.system for each in first.ranking]
    letters = {name: _letter(number) for number, name in enumerate(order)}
    rows: list[list[str]] = []
    bold: set[tuple[int, int]] = set()
    for name in order:
        row = [letters[name], name]
        for verdict in comparison.values():
            (standing,) = (each for each in verdict.ranking if each.system == name)
            worse_letters = [
                letters[other] for other in order if other in verdict.significance.significantly_worse(name)
            ]
            if name in verdict.significance.best():
                bold.add((len(rows), len(row) + 1))
            row += [
                str(standing.rank),
                f"{standing.score:.{digits}f}{' ' + ''.join(worse_letters) if worse_letters else ''}",
            ]
        rows.append(row)
    columns = ["", "system", *(text for name in comparison for text in ("rank", MetricName(name)))]
    note = (
        f"rows: by {next(iter(comparison))}, best first; "
        "letters: significantly better than these systems (p after Holm's correction below "
        f"{significance_threshold(comparison.level):g}); a new rank begins where a system is significantly worse than "
        "the best of the last; bold: the best, and all that are not significantly worse"
    )
    return Table(_title(comparison), columns, rows, [False, False, *([True, False] * len(comparison))], note, bold)


def contrast_table(
    comparison: SystemComparison, metric: str, number: int, digits: int = 4, equal: str | None = None
) -> Table:
    """The captions of the first two systems whose scores differ most, of those that `equal` scores equally."""
    one, two = comparison.systems[:2]
    rows: list[list[str]] = []
    for each in comparison.most_different(metric, one, two, number, equal):
        gap = f"{each.first_score - each.second_score:+.{digits}f}"
        rows.append([each.id, gap, f"{each.first_score:.{digits}f}", each.first])
        rows.append(["", "", f"{each.second_score:.{digits}f}", each.second])
        rows.extend(["", "", "", f"({text})"] for text in each.references[:1])
    title = f"the captions of {one} (above) and {two} (below) whose {metric} scores differ most, with one reference"
    title += f"; {equal} scores both equally (within {EQUAL})" if equal else ""
    note = "" if rows else f"none: no two captions differ under {metric}{f' and are equal under {equal}' * bool(equal)}"
    return Table(title, ["id", "difference", metric, "caption"], rows, [False, True, True, False], note)


@house_style()
def difference_figure(comparison: SystemComparison) -> Any:
    """A panel per metric: every pair's difference with its interval, filled where it is significant."""
    metrics = list(comparison)
    pairs = [(each.first, each.second) for each in comparison[metrics[0]].differences]
    columns = min(3, len(metrics))
    rows = -(-len(metrics) // columns)
    widest = max(len(f"{one} − {two}") for one, two in pairs)
    size = {"width": 3.2 + 0.07 * widest / columns, "height": 1.2 + 0.3 * len(pairs)}
    figure, axes = open_figure(rows, columns, **size, share="y")
    for panel, name in zip(axes.flat, metrics, strict=False):
        panel.axvline(0, color="#808080", linewidth=1)
        for place, each in enumerate(comparison[name].differences):
            sure = is_significant(each.p_holm, comparison.level)
            colour = COLOURS[0] if sure else COLOURS[-1]
            panel.plot([each.low, each.high], [place, place], color=colour)
            panel.plot([each.difference], [place], "o", color=colour, markerfacecolor=colour if sure else "white")
        panel.set(title=name, yticks=range(len(pairs)), yticklabels=[f"{one} − {two}" for one, two in pairs])
        panel.set_ylim(len(pairs) - 0.4, -0.6)
        panel.set_xlabel("difference of the scores")
    for panel in axes.flat[len(metrics) :]:
        panel.set_visible(False)
    corrected = " after Holm's correction" if len(pairs) > 1 else ""
    figure.suptitle(
        f"{100 * comparison.level:g}% intervals; "
        f"filled: p below {significance_threshold(comparison.level):g}{corrected}",
        fontsize=9,
        x=0.01,
        ha="left",
    )
    return figure


def difference_rows(comparison: SystemComparison) -> Table:
    """Every difference in full precision, for programs."""
    columns = [each.name for each in fields(SystemDifference)]
    rows = [[name, *astuple(each)] for name, verdict in comparison.items() for each in verdict.differences]
    return Table("", ["metric", *columns], rows, [])


def _title(comparison: SystemComparison) -> str:
    captions = next(iter(comparison.captions.values()))
    images = len(set(captions.image_ids))
    of = f"{format_count(len(captions), 'caption')} of {format_count(images, 'image')}"
    return f"{format_count(len(comparison.systems), 'system')}, {of} each"


def _note(comparison: SystemComparison) -> str:
    how = comparison.test.describe(comparison.resamples)
    first = "the first" if len(comparison.systems) > 2 else comparison.systems[0]
    return (
        f"p: {how}; interval of the difference: {comparison.resamples:,} resamples of images (seed "
        f"{comparison.seed}); win/tie/loss: captions of {first}, by their own scores"
    )


def _p(value: float) -> str:
    return f"{value:.4f}" if value >= 0.00005 else f"{value:.1e}"


def _letter(number: int) -> str:
    return _LETTERS[number] if number < len(_LETTERS) else f"({number + 1})"
