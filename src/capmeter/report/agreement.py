"""Agreement with human judgments as tables, and the captions behind it as files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from capmeter.core.errors import InputError
from capmeter.core.messages import format_count
from capmeter.core.output_files import text_writer, write_table
from capmeter.judgments.prepared import JudgedPairs, Points, PreparedJudgments, Systems
from capmeter.meta.agreement import AgreementTable
from capmeter.meta.coefficient import CORRELATIONS, AgreementRow
from capmeter.meta.human_level import HUMAN
from capmeter.report.tables import MetricName, Table

_JUDGING = {
    "scored_share": "{:.1f} % of the captions have a score",
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
            lambda row: _published(published.get(row.metric)),
        ),
    }
    shown_columns = {name: cell for name, (is_shown, cell) in optional_columns.items() if is_shown}
    table_rows = []
    for row in (*results, *table.of("length"), *table.of("human_level")):
        categories = table.categories(row.metric)
        table_rows.append(
            [
                str(row.rank or "-"),
                MetricName(row.metric) if row.analysis == "results" else row.metric,
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
    title = f"{table.benchmark}: {format_judgments(judgments, len(judgments))}{images}"
    return Table(title, columns, table_rows, numeric)


def format_judgments(judgments: PreparedJudgments, number: int) -> str:
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
        judgment_count = format_judgments(table.judgments, row.n or 0)
        lines.append(f"human: {compared}, under the same protocol and coefficient ({judgment_count})")
        lines += [f"human: {note}" for note in notes]
    for metric in dict.fromkeys(row.metric for row in table.of("judging")):
        lines.append(f"{metric}: {_judging_note(table.of('judging', metric))}")
    lines += [line for row in table.results for line in _published_notes(table, row.metric)]
    return lines + [f"{row.metric} {row.note}" for row in table.results if row.note]


def _judging_note(rows: Iterable[AgreementRow]) -> str:
    """How a judge was asked, in one line."""
    values = {row.statistic: row.value or 0.0 for row in rows}
    judging_facts = [text.format(100 * values[name]) for name, text in _JUDGING.items() if name in values]
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


def _published(row: AgreementRow | None) -> str:
    """A published value; one that was made with another encoder, or with one that is not stated, is said to be so."""
    if row is None:
        return "-"
    return f"{'' if row.analysis == 'published' else 'other encoder: '}{row.value:g} ({row.source})"


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
    rows = [
        [row.metric, row.other, f"{row.value:+.{digits}f}", _interval(row, digits), f"{row.p:.3f}"]
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
    columns += [column for judge in list(by_judge)[1:] for column in (MetricName(judge), "rank")]
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

    write_table(pyarrow.Table.from_pylist(list(_items(table))), path)


def _items(table: AgreementTable) -> Iterator[dict[str, Any]]:
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
    for k, item_id in enumerate(item_ids):
        scores = {metric_name: float(metric_scores[k]) for metric_name, metric_scores in table.items.items()}
        yield {"id": item_id, HUMAN: human_judgments.get(k), **scores}


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
