"""Agreement with human judgments as tables and figures, and the captions behind it as files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from capmeter.core.errors import InputError
from capmeter.core.messages import format_count
from capmeter.core.output_files import text_writer, write_table
from capmeter.judgments.prepared import Floats, JudgedPairs, Points, PreparedJudgments, Systems
from capmeter.meta.agreement import AgreementTable
from capmeter.meta.coefficient import CORRELATIONS, AgreementRow
from capmeter.meta.human_level import HUMAN
from capmeter.report.figures import COLOURS, house_style, open_figure
from capmeter.report.score_table import format_share
from capmeter.report.tables import Table, name_metrics

_JUDGING = {
    "consistency": "{:.1f} % of repeated answers are equal",
    "order_consistency": "{:.1f} % of the pairs have the same winner in both orders",
}


def agreement_table(table: AgreementTable, digits: int = 1) -> Table:
    """One row per metric from best to worst, then the length baseline and the inter-annotator agreement, where known.

    `agreement_notes` are the lines that belong below it.
    """
    results = table.results
    groups = sorted({group for row in results for group in table.categories(row.metric)})
    published = {row.metric: row for kind in ("published_otherwise", "published") for row in table.of(kind)[::-1]}
    optional_columns: dict[str, tuple[bool, Callable[[AgreementRow], str]]] = {
        "p": (
            any(row.p is not None for row in results),
            lambda row: "-" if row.p is None or row.rank is None else f"{row.p:.3f}",
        ),
        "equal scores": (
            any(row.value for row in table.of("equal_scores")),
            lambda row: _number(table.find("equal_scores", row.metric), 0),
        ),
        "given length": (
            bool(table.of("given_length")),
            lambda row: _number(table.find("given_length", row.metric), digits),
        ),
        "its interval": (
            bool(table.of("given_length")),
            lambda row: _interval(table.find("given_length", row.metric), digits),
        ),
        "published": (
            any(row.metric in published for row in results),
            # a value that was made with another encoder, or with one that is not stated, is said to be so
            lambda row: (
                "-"
                if (found := published.get(row.metric)) is None
                else f"{'' if found.analysis == 'published' else 'other encoder: '}{found.value:g} ({found.source})"
            ),
        ),
    }
    short_names = name_metrics(row.metric for row in results)
    shown_columns = {name: cell for name, (is_shown, cell) in optional_columns.items() if is_shown}
    table_rows = []
    for row in (*results, *table.of("length"), *table.of("human_level")):
        categories = table.categories(row.metric)
        table_rows.append(
            [
                str(row.rank or "-"),
                short_names[row.metric] if row.analysis == "results" else row.metric,
                _number(row, digits),
                _interval(row, digits),
                *(f"{categories[group]:.{digits}f}" if group in categories else "-" for group in groups),
                *(cell(row) for cell in shown_columns.values()),
            ]
        )
    columns = ["rank", "metric", table.protocol.statistic, f"{table.level:.0%} interval", *groups, *shown_columns]
    numeric = [True, False] + [True] * (2 + len(groups)) + [name != "published" for name in shown_columns]
    judgments = table.judgments
    images = "" if isinstance(judgments, Systems) else f" of {format_count(len(set(judgments.clusters)), 'image')}"
    title = f"{table.benchmark}: {_format_judgments(judgments, len(judgments))}{images}"
    return Table(title, columns, table_rows, numeric)


def _format_judgments(judgments: PreparedJudgments, number: int) -> str:
    """A number of judgments, pairs or systems."""
    return format_count(number, judgments.unit.removesuffix("s"))


def agreement_notes(table: AgreementTable) -> list[str]:
    """The protocol in one line, then what else must be known of the numbers."""
    what = "systems" if isinstance(table.judgments, Systems) else "images"
    lines = [f"protocol: {table.protocol}"]
    left_out = [f"{count:,} {reason}" for reason, count in table.judgments.notes.items() if count]
    if left_out:
        lines.append(f"left out: {', '.join(left_out)}")
    worse_phrase = "significantly worse (Williams' test)" if what == "systems" else "significantly worse"
    lines.append(
        f"values x 100; intervals: {table.resamples:,} resamples of {what} (seed {table.seed}); "
        f"a new rank begins where a metric is {worse_phrase} than the best of the rank before"
    )
    if table.of("length"):
        lines.append("length: the number of words of the caption alone, a baseline that a metric should exceed")
    if table.of("given_length"):
        lines.append(_length_note(table))
    for row in table.of("human_level"):
        compared, *notes = row.note.split("\n")
        judgment_count = _format_judgments(table.judgments, row.n or 0)
        lines.append(f"human: {compared}, under the same protocol and coefficient ({judgment_count})")
        lines += [f"human: {note}" for note in notes]
    for metric in dict.fromkeys(row.metric for row in table.of("judging")):
        lines.append(f"{metric}: {_judging_note(table.of('judging', metric), len(table.judgments.ids))}")
    lines += [f"{row.metric} {row.note}" for row in table.of("training")]
    lines += [line for row in table.results for line in _published_notes(table, row.metric)]
    return lines + [f"{row.metric} {row.note}" for row in table.results if row.note]


def _judging_note(rows: Iterable[AgreementRow], captions: int) -> str:
    """How a judge was asked, in one line."""
    values = {row.statistic: row.value or 0.0 for row in rows}
    judging_facts = [f"{format_share(values['scored_share'], captions)} captions have a score"]
    judging_facts += [text.format(100 * values[name]) for name, text in _JUDGING.items() if name in values]
    judging_facts.append(f"{values['input_tokens']:,.0f} + {values['output_tokens']:,.0f} tokens per caption")
    if "cost" in values:
        judging_facts.append(f"{values['cost']:.6f} per caption by --judge-prices")
    return "; ".join(judging_facts)


def _length_note(table: AgreementTable) -> str:
    statistic = table.protocol.statistic
    if isinstance(table.judgments, JudgedPairs) and statistic not in CORRELATIONS:
        pair_counts = [row.n for row in table.of("given_length") if row.n]
        pairs = f" ({format_count(pair_counts[0], 'pair')})" if pair_counts else ""
        return (
            "given length: the mean of the accuracy where people prefer the longer caption and where they prefer the "
            f"shorter one, which is 50 for length{pairs}; -: people always prefer one"
        )
    coefficient = statistic if statistic in ("pearson", "spearman") else "tau-b"
    return f"given length: the partial {coefficient} with length held constant; -: length determines the score"


def _published_notes(table: AgreementTable, metric: str) -> list[str]:
    rows = [*table.of("published", metric), *table.of("published_otherwise", metric)]
    groups = ", ".join(f"{row.subset} {row.value:g}" for row in rows if row.subset != "all")
    remarks = "; ".join(filter(None, (groups, *(row.note for row in rows))))
    return [f"{metric}, published: {remarks}"] if remarks else []


def _number(row: AgreementRow | None, digits: int) -> str:
    return "-" if row is None or row.value is None else f"{row.value:.{digits}f}"


def _interval(row: AgreementRow | None, digits: int) -> str:
    return "-" if row is None or row.low is None else f"[{row.low:.{digits}f}, {row.high:.{digits}f}]"


def difference_table(table: AgreementTable, digits: int = 1) -> Table:
    """Every pair of metrics: the difference on the same resamples, its interval and p."""
    names = name_metrics(row.metric for row in table.results)
    rows = [
        [names[row.metric], names[row.other], f"{row.value:+.{digits}f}", _interval(row, digits), f"{row.p:.3f}"]
        for row in table.of("differences")
    ]
    column_names = ["metric", "minus", "difference", f"{table.level:.0%} interval", "p"]
    return Table(f"{table.benchmark}: paired differences", column_names, rows, [False, False, True, True, True])


def ranking_table(table: AgreementTable, digits: int = 1) -> Table:
    """An arena's systems, best first by people: every judge's rating and rank; then its correlations with people's."""
    by_judge: dict[str, dict[str, AgreementRow]] = {}
    for row in table.of("arena"):
        by_judge.setdefault(row.metric, {})[row.statistic if row.subset == "all" else row.subset] = row
    human_ratings, *metric_ratings = by_judge.values()
    columns = ["system", "people", f"{table.level:.0%} interval"]
    columns += [column for judge in name_metrics(list(by_judge)[1:]).values() for column in (judge, "rank")]
    table_rows = [
        [
            system_name,
            _number(row, 0),
            _interval(row, 0),
            *(cell for each in metric_ratings for cell in (_number(each[system_name], 0), str(each[system_name].rank))),
        ]
        for system_name, row in human_ratings.items()
    ]
    for name in ("spearman", "kendall"):
        correlations = [each.get(name) for each in metric_ratings]
        cells = [cell for row in correlations for cell in (_number(row, digits), _interval(row, digits))]
        table_rows.append([name.title(), "-", "-", *cells])
    note = (
        "Bradley-Terry ratings on Elo's scale (1000: the mean; 400 points: odds of 10 to 1); a metric ties as many "
        "pairs as people; Spearman's and Kendall's correlations with people's ratings x 100; "
        f"{table.resamples:,} resamples of images"
    )
    title = f"{table.benchmark}: ratings of {format_count(len(human_ratings), 'system')}"
    return Table(title, columns, table_rows, [False] + [True] * (len(columns) - 1), note)


def write_items(table: AgreementTable, path: Path) -> None:
    """The scores behind a table, one row per caption (or system) with the human judgments."""
    import pyarrow

    judgments = table.judgments
    human_judgments: dict[int, Any] = {}
    if isinstance(judgments, Points):
        for caption_index, rating in zip(judgments.rows.tolist(), judgments.human.tolist(), strict=True):
            human_judgments.setdefault(caption_index, []).append(rating)
    elif isinstance(judgments, JudgedPairs):
        for a, b, better in zip(judgments.first, judgments.second, judgments.better.tolist(), strict=True):
            human_judgments[int(a)], human_judgments[int(b)] = better, -better
    elif isinstance(judgments, Systems):
        human_judgments = dict(enumerate(judgments.human.tolist()))
    item_ids = judgments.names if isinstance(judgments, Systems) else judgments.ids
    rows = [
        {
            "id": item_id,
            HUMAN: human_judgments.get(k),
            **{name: float(scores[k]) for name, scores in table.items.items()},
        }
        for k, item_id in enumerate(item_ids)
    ]
    write_table(pyarrow.Table.from_pylist(rows), path)


def write_captions(judgments: PreparedJudgments, path: Path) -> None:
    """The captions to be scored, as native JSON lines with their ids: for a metric that runs elsewhere."""
    if len(judgments.captions) == 0:
        raise InputError(f"{judgments.benchmark} has no captions to write, only systems: {', '.join(judgments.ids)}")
    with text_writer(path) as file:
        for caption in judgments.captions:
            caption_row = {
                "id": caption.id,
                "image_id": caption.image_id,
                "candidate": caption.candidate,
                "references": list(caption.references),
            }
            file.write(json.dumps(caption_row, ensure_ascii=False) + "\n")


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
    short_names = name_metrics(row.metric for row in shown_results)
    axis.set_yticks(range(len(shown_results)), [f"{short_names[row.metric]}  ({row.rank})" for row in shown_results])
    axis.invert_yaxis()
    axis.margins(y=0.5 / max(1, len(shown_results)))
    axis.grid(axis="y", visible=False)
    diamond_note = "; diamond: published" if any(published) else ""
    axis.set_xlabel(f"{table.protocol.statistic} x 100, {table.level:.0%} interval (rank in parentheses{diamond_note})")
    judgment_count = _format_judgments(table.judgments, len(table.judgments))
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
    short_names = name_metrics(scores)
    for axis, (metric_name, metric_scores) in zip(axes.ravel(), scores.items(), strict=False):
        axis.set_title(short_names[metric_name])
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
