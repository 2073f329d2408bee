"""Agreement with people as a table, and as files of the scores behind it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from capmeter.captions.files import text_writer
from capmeter.errors import InputError
from capmeter.judgments.judged import Floats, Judgments, Pairs, Points, Systems
from capmeter.meta.agreement import Agreement, Report
from capmeter.meta.complementarity import Combination
from capmeter.meta.curves import Curve
from capmeter.meta.human_level import HumanLevel
from capmeter.meta.published import Published
from capmeter.report.names import MetricName
from capmeter.report.row_files import write_rows
from capmeter.report.tables import Table


def agreement_table(report: Report, digits: int = 1) -> Table:
    """One row per metric from best to worst, then people's agreement with people, where it is known.

    `agreement_notes` are the lines that belong below it.
    """
    results = report.results
    groups = sorted({group for each in results for group in each.groups})
    shown = {
        "p": any(each.p is not None for each in results),
        "equal scores": any(each.tied for each in results),
        "published": any(each.published for each in results),
    }
    columns = ["rank", "metric", report.protocol.statistic, f"{report.level:.0%} interval", *groups]
    columns += [name for name, wanted in shown.items() if wanted]
    rows = []
    for each in results:
        row = [str(each.rank or "-"), MetricName(each.metric), _number(each.value, digits), _interval(each, digits)]
        row += [_number(each.groups.get(group), digits) for group in groups]
        cells = {
            "p": "-" if each.p is None else f"{each.p:.3f}",
            "equal scores": "-" if each.tied is None else str(each.tied),
            "published": _published(each.published),
        }
        rows.append(row + [cells[name] for name, wanted in shown.items() if wanted])
    if report.human is not None:
        human = report.human
        row = ["-", "people", _number(human.value, digits), _interval(human, digits)]
        row += [_number(human.groups.get(group), digits) for group in groups]
        rows.append(row + ["-" for wanted in shown.values() if wanted])
    numeric = (
        [True, False] + [True] * (2 + len(groups)) + [name != "published" for name, wanted in shown.items() if wanted]
    )
    return Table(_title(report), columns, rows, numeric)


def _title(report: Report) -> str:
    judgments = report.judgments
    of = "" if isinstance(judgments, Systems) else f" of {len(set(judgments.clusters)):,} images"
    return f"{report.benchmark}: {len(judgments):,} {report.unit}{of}"


def agreement_notes(report: Report) -> list[str]:
    """The protocol in one line, then what else must be known of the numbers."""
    what = "systems" if isinstance(report.judgments, Systems) else "images"
    lines = [f"protocol: {report.protocol}"]
    left = [f"{count:,} {reason}" for reason, count in report.judgments.notes.items() if count]
    if left:
        lines.append(f"left out: {', '.join(left)}")
    worse = "significantly worse (Williams' test)" if what == "systems" else "significantly worse"
    lines.append(
        f"values x 100; intervals: {report.resamples:,} resamples of {what} (seed {report.seed}); "
        "a new rank begins where a "
        f"metric is {worse} than the best of the rank before"
    )
    if report.human is not None:
        lines.append(
            f"people: {report.human.what}, under the same protocol and coefficient ({report.human.n:,} {report.unit})"
        )
        lines += [f"people: {note}" for note in report.human.notes]
    lines += [line for each in report.results for line in _published_notes(each)]
    return lines + [f"{each.metric} {each.note}" for each in report.results if each.note]


def _published(found: Published | None) -> str:
    """A published value; one that was made with another encoder, or with one that is not stated, is said to be so."""
    if found is None:
        return "-"
    if found.agrees:
        return f"{found.value:g} ({found.source})"
    return f"other encoder: {found.value:g} ({found.made_with}, {found.source})"


def _published_notes(each: Agreement) -> list[str]:
    found = each.published
    if found is None or not (found.groups or found.note):
        return []
    groups = ", ".join(f"{group} {value:g}" for group, value in found.groups.items())
    return [f"{each.metric}, published: {'; '.join(filter(None, (groups, found.note)))}"]


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _interval(each: Agreement | HumanLevel, digits: int) -> str:
    return "-" if each.low is None else f"[{each.low:.{digits}f}, {each.high:.{digits}f}]"


def difference_table(report: Report, digits: int = 1) -> Table:
    """Every pair of metrics: the difference on the same resamples, its interval and p."""
    rows = [
        [
            each.first,
            each.second,
            f"{each.value:+.{digits}f}",
            f"[{each.low:.{digits}f}, {each.high:.{digits}f}]",
            f"{each.p:.3f}",
        ]
        for each in report.differences
    ]
    heads = ["metric", "minus", "difference", f"{report.level:.0%} interval", "p"]
    return Table(f"{report.benchmark}: paired differences", heads, rows, [False, False, True, True, True])


def combination_table(report: Report, combinations: Sequence[Combination], digits: int = 1) -> Table:
    """Every sum of two standardised metrics, and its gain over the better of the two."""
    shown = any(each.agreement.published for each in combinations)
    rows = [
        [
            f"{each.first} + {each.second}",
            _number(each.agreement.value, digits),
            _interval(each.agreement, digits),
            f"{each.gain.value:+.{digits}f}",
            f"[{each.gain.low:.{digits}f}, {each.gain.high:.{digits}f}]",
            f"{each.gain.p:.3f}",
            *([_published(each.agreement.published)] if shown else []),
        ]
        for each in combinations
    ]
    interval = f"{report.level:.0%} interval"
    heads = ["sum of two, standardised", report.protocol.statistic, interval, "gain over the better", interval, "p"]
    columns = [False] + [True] * 5
    if shown:
        heads, columns = [*heads, "published"], [*columns, False]
    return Table(f"{report.benchmark}: combinations", heads, rows, columns)


def combination_json(combination: Combination) -> dict[str, Any]:
    """A combination's value and gain."""
    agreement, gain = combination.agreement, combination.gain
    return {
        "value": agreement.value,
        "low": agreement.low,
        "high": agreement.high,
        "gain": {"over": gain.second, "value": gain.value, "low": gain.low, "high": gain.high, "p": gain.p},
    }


def curve_table(curve: Curve, digits: int = 1) -> Table:
    """One row per metric, one column per number of references: the mean over the samples and half the range."""

    def cell(row: Floats) -> str:
        return f"{row.mean():.{digits}f} ±{(row.max() - row.min()) / 2:.{digits}f}"

    rows = []
    for name, values in curve.values.items():
        rows.append([MetricName(name), *(cell(row) for row in values)])
        rows += [[f"  {group}", *(cell(row) for row in each)] for group, each in curve.groups.get(name, {}).items()]
    heads = ["metric", *(f"{number} ref{'s' if number > 1 else ''}" for number in curve.numbers)]
    title = f"{curve.benchmark}: {curve.statistic} by number of references (± half the range over samples)"
    return Table(title, heads, rows, [False] + [True] * len(curve.numbers))


def write_items(report: Report, path: Path) -> None:
    """The scores behind a report, one row per caption (or system) with what people said: .csv, .tsv or .jsonl."""
    write_rows(list(_items(report)), path)


def _items(report: Report) -> Iterator[dict[str, Any]]:
    judgments = report.judgments
    human: dict[int, Any] = {}
    if isinstance(judgments, Points):
        for row, rating in zip(judgments.rows.tolist(), judgments.human.tolist(), strict=True):
            human.setdefault(row, []).append(rating)
    elif isinstance(judgments, Pairs):
        for a, b, better in zip(judgments.first, judgments.second, judgments.better.tolist(), strict=True):
            human[int(a)], human[int(b)] = better, -better
    elif isinstance(judgments, Systems):
        human = dict(enumerate(judgments.human.tolist()))
    names = judgments.names if isinstance(judgments, Systems) else judgments.ids
    for k, id in enumerate(names):
        yield {"id": id, "human": human.get(k), **{name: float(values[k]) for name, values in report.items.items()}}


def write_captions(judgments: Judgments, path: Path) -> None:
    """The captions to be scored, as native JSON lines with their ids: for a metric that runs elsewhere."""
    if len(judgments.captions) == 0:
        raise InputError(f"{judgments.benchmark} has no captions to write, only systems: {', '.join(judgments.ids)}")
    with text_writer(path) as file:
        for caption in judgments.captions:
            row = {
                "id": caption.id,
                "image_id": caption.image_id,
                "candidate": caption.candidate,
                "references": list(caption.references),
            }
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
