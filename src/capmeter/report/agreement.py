"""Agreement with human judgments as a table, and as files of the scores behind it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from capmeter.core.errors import InputError
from capmeter.core.messages import format_count
from capmeter.core.output_files import text_writer
from capmeter.judgments.prepared import Floats, JudgedPairs, Points, PreparedJudgments, Systems
from capmeter.meta.agreement import Agreement, AgreementReport
from capmeter.meta.arena import HUMAN, ArenaRanking, RankCorrelation
from capmeter.meta.coefficient import CORRELATIONS, SCALE
from capmeter.meta.complementarity import MetricPair
from capmeter.meta.human_level import HumanLevel
from capmeter.meta.published import PublishedValue
from capmeter.meta.reference_curves import ReferenceCurve
from capmeter.report.metric_names import MetricName
from capmeter.report.row_files import write_rows
from capmeter.report.tables import Table


def agreement_table(report: AgreementReport, digits: int = 1) -> Table:
    """One row per metric from best to worst, then the length baseline and the inter-annotator agreement, where known.

    `agreement_notes` are the lines that belong below it.
    """
    results = report.results
    groups = sorted({group for each in results for group in each.groups})
    optional_columns = {
        "p": any(each.p is not None for each in results),
        "equal scores": any(each.tied for each in results),
        "given length": report.controls_length,
        "its interval": report.controls_length,
        "published": any(each.published for each in results),
    }
    columns = ["rank", "metric", report.protocol.statistic, f"{report.level:.0%} interval", *groups]
    columns += [column_name for column_name, is_present in optional_columns.items() if is_present]
    table_rows = []
    for each in results:
        table_row = [
            str(each.rank or "-"),
            MetricName(each.metric),
            _number(each.value, digits),
            _interval(each, digits),
        ]
        table_row += [_number(each.groups.get(group), digits) for group in groups]
        cells = {
            "p": "-" if each.p is None else f"{each.p:.3f}",
            "equal scores": "-" if each.tied is None else str(each.tied),
            **_given_length(each, digits),
            "published": _published(each.published),
        }
        table_rows.append(
            table_row + [cells[column_name] for column_name, is_present in optional_columns.items() if is_present]
        )
    if report.length is not None:
        length = report.length
        table_row = ["-", "length", _number(length.value, digits), _interval(length, digits)]
        table_row += [_number(length.groups.get(group), digits) for group in groups]
        cells = _given_length(length, digits)
        table_rows.append(
            table_row
            + [cells.get(column_name, "-") for column_name, is_present in optional_columns.items() if is_present]
        )
    if report.human is not None:
        human = report.human
        table_row = ["-", "human", _number(human.value, digits), _interval(human, digits)]
        table_row += [_number(human.groups.get(group), digits) for group in groups]
        table_rows.append(table_row + ["-" for is_present in optional_columns.values() if is_present])
    numeric = (
        [True, False]
        + [True] * (2 + len(groups))
        + [column_name != "published" for column_name, is_present in optional_columns.items() if is_present]
    )
    return Table(_title(report), columns, table_rows, numeric)


def _given_length(agreement: Agreement, digits: int) -> dict[str, str]:
    """The cells of what is left of an agreement with length held constant."""
    given = agreement.given_length
    return {
        "given length": _number(None if given is None else given.value, digits),
        "its interval": "-" if given is None else f"[{given.low:.{digits}f}, {given.high:.{digits}f}]",
    }


def _title(report: AgreementReport) -> str:
    judgments = report.judgments
    of = "" if isinstance(judgments, Systems) else f" of {format_count(len(set(judgments.clusters)), 'image')}"
    return f"{report.benchmark}: {format_judgments(report, len(judgments))}{of}"


def format_judgments(report: AgreementReport, number: int) -> str:
    """A number of judgments, pairs or systems."""
    return format_count(number, report.unit.removesuffix("s"))


def agreement_notes(report: AgreementReport) -> list[str]:
    """The protocol in one line, then what else must be known of the numbers."""
    what = "systems" if isinstance(report.judgments, Systems) else "images"
    lines = [f"protocol: {report.protocol}"]
    left_out = [f"{count:,} {reason}" for reason, count in report.judgments.notes.items() if count]
    if left_out:
        lines.append(f"left out: {', '.join(left_out)}")
    worse_phrase = "significantly worse (Williams' test)" if what == "systems" else "significantly worse"
    lines.append(
        f"values x 100; intervals: {report.resamples:,} resamples of {what} (seed {report.seed}); "
        "a new rank begins where a "
        f"metric is {worse_phrase} than the best of the rank before"
    )
    if report.length is not None:
        lines.append("length: the number of words of the caption alone, a baseline that a metric should exceed")
    if report.controls_length:
        lines.append(_length_note(report))
    if report.human is not None:
        judgment_count = format_judgments(report, report.human.n)
        lines.append(f"human: {report.human.what}, under the same protocol and coefficient ({judgment_count})")
        lines += [f"human: {note}" for note in report.human.notes]
    lines += [f"{each.metric}: {_judging_note(each.judging)}" for each in report.results if each.judging]
    lines += [line for each in report.results for line in _published_notes(each)]
    lines += [
        f"{source}: values of {', '.join(names)} are not printed, no protocol tried gives them (docs/benchmarks.md)"
        for source, names in report.withheld.items()
    ]
    return lines + [f"{each.metric} {each.note}" for each in report.results if each.note]


def _judging_note(judging: Mapping[str, float]) -> str:
    """How a judge was asked, in one line."""
    shares = {
        "scored_share": "of the captions have a score",
        "consistency": "of repeated answers are equal",
        "order_consistency": "of the pairs have the same winner in both orders",
    }
    judging_facts = [f"{100 * judging[name]:.1f} % {what}" for name, what in shares.items() if name in judging]
    judging_facts.append(f"{judging['input_tokens']:,.0f} + {judging['output_tokens']:,.0f} tokens per caption")
    if "cost" in judging:
        judging_facts.append(f"{judging['cost']:.6f} per caption by --judge-prices")
    return "; ".join(judging_facts)


def _length_note(report: AgreementReport) -> str:
    statistic = report.protocol.statistic
    if isinstance(report.judgments, JudgedPairs) and statistic not in CORRELATIONS:
        pair_counts = [each.given_length.n for each in report.results if each.given_length is not None]
        pairs = f" ({format_count(pair_counts[0], 'pair')})" if pair_counts else ""
        return (
            "given length: the mean of the accuracy where people prefer the longer caption and where they prefer the "
            f"shorter one, which is 50 for length{pairs}; "
            "-: people always prefer one"
        )
    coefficient = statistic if statistic in ("pearson", "spearman") else "tau-b"
    return f"given length: the partial {coefficient} with length held constant; -: length determines the score"


def _published(published_value: PublishedValue | None) -> str:
    """A published value; one that was made with another encoder, or with one that is not stated, is said to be so."""
    if published_value is None:
        return "-"
    if published_value.agrees:
        return f"{published_value.value:g} ({published_value.source})"
    return f"other encoder: {published_value.value:g} ({published_value.made_with}, {published_value.source})"


def _published_notes(agreement: Agreement) -> list[str]:
    published_value = agreement.published
    if published_value is None or not (published_value.groups or published_value.note):
        return []
    groups = ", ".join(f"{group} {value:g}" for group, value in published_value.groups.items())
    return [f"{agreement.metric}, published: {'; '.join(filter(None, (groups, published_value.note)))}"]


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _interval(agreement: Agreement | HumanLevel, digits: int) -> str:
    return "-" if agreement.low is None else f"[{agreement.low:.{digits}f}, {agreement.high:.{digits}f}]"


def difference_table(report: AgreementReport, digits: int = 1) -> Table:
    """Every pair of metrics: the difference on the same resamples, its interval and p."""
    rows = [
        [
            difference.first,
            difference.second,
            f"{difference.value:+.{digits}f}",
            f"[{difference.low:.{digits}f}, {difference.high:.{digits}f}]",
            f"{difference.p:.3f}",
        ]
        for difference in report.differences
    ]
    column_names = ["metric", "minus", "difference", f"{report.level:.0%} interval", "p"]
    return Table(f"{report.benchmark}: paired differences", column_names, rows, [False, False, True, True, True])


def ranking_table(report: AgreementReport, rankings: Sequence[ArenaRanking], digits: int = 1) -> Table:
    """An arena's systems, best first by people: every judge's rating and rank; then its correlations with people's."""
    columns = ["system", "people", f"{report.level:.0%} interval"]
    metric_rankings = [metric_ranking for metric_ranking in rankings if metric_ranking.judge != HUMAN]
    columns += [column for metric_ranking in metric_rankings for column in (MetricName(metric_ranking.judge), "rank")]
    by_judge = {
        metric_ranking.judge: {rated.system: (k, rated) for k, rated in enumerate(metric_ranking.ratings, 1)}
        for metric_ranking in rankings
    }
    table_rows: list[list[str]] = []
    for system_name, (_, rated) in by_judge[HUMAN].items():
        table_row = [system_name, f"{rated.rating:.0f}", f"[{rated.low:.0f}, {rated.high:.0f}]"]
        for metric_ranking in metric_rankings:
            rank, metric_rating = by_judge[metric_ranking.judge][system_name]
            table_row += [f"{metric_rating.rating:.0f}", str(rank)]
        table_rows.append(table_row)
    correlations = {
        "Spearman": [metric_ranking.spearman for metric_ranking in metric_rankings],
        "Kendall": [metric_ranking.kendall for metric_ranking in metric_rankings],
    }
    for correlation_name, of_metrics in correlations.items():
        correlation_cells = [_correlation(correlation, digits) for correlation in of_metrics]
        table_rows.append([correlation_name, "-", "-", *(cell for pair in correlation_cells for cell in pair)])
    note = (
        "Bradley-Terry ratings on Elo's scale (1000: the mean; 400 points: odds of 10 to 1); a metric ties as many "
        "pairs as people; Spearman's and Kendall's correlations with people's ratings x 100; "
        f"{report.resamples:,} resamples of images"
    )
    title = f"{report.benchmark}: ratings of {format_count(len(table_rows) - 2, 'system')}"
    return Table(title, columns, table_rows, [False] + [True] * (len(columns) - 1), note)


def _correlation(correlation: RankCorrelation | None, digits: int) -> tuple[str, str]:
    if correlation is None:
        return "-", "-"
    value, low, high = (SCALE * each for each in (correlation.value, correlation.low, correlation.high))
    return f"{value:.{digits}f}", f"[{low:.{digits}f}, {high:.{digits}f}]"


def combination_table(report: AgreementReport, combinations: Sequence[MetricPair], digits: int = 1) -> Table:
    """Every sum of two standardised metrics, and its gain over the better of the two."""
    has_published = any(combination.agreement.published for combination in combinations)
    rows = [
        [
            f"{combination.first} + {combination.second}",
            _number(combination.agreement.value, digits),
            _interval(combination.agreement, digits),
            f"{combination.gain.value:+.{digits}f}",
            f"[{combination.gain.low:.{digits}f}, {combination.gain.high:.{digits}f}]",
            f"{combination.gain.p:.3f}",
            *([_published(combination.agreement.published)] if has_published else []),
        ]
        for combination in combinations
    ]
    interval = f"{report.level:.0%} interval"
    column_names = [
        "sum of two, standardised",
        report.protocol.statistic,
        interval,
        "gain over the better",
        interval,
        "p",
    ]
    is_numeric = [False] + [True] * 5
    if has_published:
        column_names, is_numeric = [*column_names, "published"], [*is_numeric, False]
    return Table(f"{report.benchmark}: combinations", column_names, rows, is_numeric)


def combination_json(combination: MetricPair) -> dict[str, Any]:
    """A combination's value and gain."""
    agreement, gain = combination.agreement, combination.gain
    return {
        "value": agreement.value,
        "low": agreement.low,
        "high": agreement.high,
        "gain": {"over": gain.second, "value": gain.value, "low": gain.low, "high": gain.high, "p": gain.p},
    }


def curve_table(curve: ReferenceCurve, digits: int = 1) -> Table:
    """One row per metric, one column per number of references: the mean over the samples and half the range."""

    def cell(row: Floats) -> str:
        return f"{row.mean():.{digits}f} ±{(row.max() - row.min()) / 2:.{digits}f}"

    table_rows = []
    for metric_name, values in curve.values.items():
        table_rows.append([MetricName(metric_name), *(cell(row) for row in values)])
        table_rows += [
            [f"  {group}", *(cell(row) for row in each)] for group, each in curve.groups.get(metric_name, {}).items()
        ]
    column_names = ["metric", *(format_count(reference_count, "ref") for reference_count in curve.numbers)]
    title = f"{curve.benchmark}: {curve.statistic} by number of references (± half the range over samples)"
    return Table(title, column_names, table_rows, [False] + [True] * len(curve.numbers))


def write_items(report: AgreementReport, path: Path) -> None:
    """The scores behind a report, one row per caption (or system) with the human judgments: .csv, .tsv or .jsonl."""
    write_rows(list(_items(report)), path)


def _items(report: AgreementReport) -> Iterator[dict[str, Any]]:
    judgments = report.judgments
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
        yield {
            "id": item_id,
            "human": human_judgments.get(k),
            **{metric_name: float(metric_scores[k]) for metric_name, metric_scores in report.items.items()},
        }


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
