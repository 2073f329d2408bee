"""Scores as tables: for the eye, for a paper, for a program.

A table is a list of columns and rows of cells, so that every format shows the same numbers.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import capmeter
from capmeter.errors import InputError
from capmeter.metrics.scores import Results

Interval = tuple[float, float]
FORMATS = ("table", "json", "csv", "latex")
_LATEX = str.maketrans({c: f"\\{c}" for c in "&%$#_{}"} | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}"})


@dataclass(frozen=True)
class Table:
    """Columns with a heading each, and rows of cells; `numeric` columns are set to the right."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    numeric: Sequence[bool]
    note: str = ""


def score_table(
    systems: Mapping[str, Results], intervals: Mapping[str, Mapping[str, Interval]] | None = None, digits: int = 4
) -> Table:
    """One row per metric for a single system; else systems and metrics, the more numerous downward."""

    def cell(system: str, metric: str) -> list[str]:
        score = f"{systems[system][metric].score:.{digits}f}"
        if intervals is None:
            return [score]
        low, high = intervals[system][metric]
        return [score, f"[{low:.{digits}f}, {high:.{digits}f}]"]

    metrics = list(next(iter(systems.values())))
    note = "" if intervals is None else "in brackets: 95% interval, images drawn with replacement"
    if len(systems) == 1:
        (system,) = systems
        heads = ["metric", "score"] + (["95% interval"] if intervals is not None else [])
        rows = [[metric, *cell(system, metric)] for metric in metrics]
        return Table(_count(systems[system]), heads, rows, [False] + [True] * (len(heads) - 1))
    title = _count(next(iter(systems.values()))) + " each"
    rows = [[system, *(" ".join(cell(system, metric)) for metric in metrics)] for system in systems]
    heads = ["system", *metrics]
    if len(metrics) > len(systems):  # the longer side downward, so that the table fits a screen
        heads, *rows = (list(line) for line in zip(heads, *rows, strict=True))
        heads[0] = "metric"
    return Table(title, heads, rows, [False] + [True] * (len(heads) - 1), note)


def _count(results: Results) -> str:
    captions, images = len(results.ids.names), len(results.ids.clusters)
    return f"{captions:,} caption{'s' * (captions != 1)} of {images:,} image{'s' * (images != 1)}"


def print_table(table: Table, console: Any) -> None:
    """Shows the table on a rich console."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = RichTable(box=box.SIMPLE_HEAD)
    for name, numeric in zip(table.columns, table.numeric, strict=True):
        shown.add_column(Text(name), justify="right" if numeric else "left", overflow="fold")
    for row in table.rows:
        shown.add_row(*(Text(cell) for cell in row))
    for text in (table.title, shown, table.note):
        if text:
            console.print(text, markup=False)


def as_csv(table: Table) -> str:
    """Comma-separated values with a heading."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(table.rows)
    return text.getvalue()


def scores_as_csv(data: dict[str, Any]) -> str:
    """What `as_json` gave as comma-separated values in full precision: one row per system and metric."""
    systems = data.get("systems") or {data["system"]: data}
    rows = [
        [system, metric, scores["score"], scores.get("low", ""), scores.get("high", ""), scores["signature"]]
        for system, results in systems.items()
        for metric, scores in results["metrics"].items()
    ]
    return as_csv(Table("", ["system", "metric", "score", "low", "high", "signature"], rows, []))


def as_latex(table: Table) -> str:
    """A `tabular` with rules of the booktabs package."""
    lines = [r"\begin{tabular}{" + "".join("r" if numeric else "l" for numeric in table.numeric) + "}", r"\toprule"]
    body = [" & ".join(cell.translate(_LATEX) for cell in row) + r" \\" for row in [table.columns, *table.rows]]
    return "\n".join([*lines, body[0], r"\midrule", *body[1:], r"\bottomrule", r"\end{tabular}", ""])


def as_json(
    systems: Mapping[str, Results], intervals: Mapping[str, Mapping[str, Interval]] | None = None
) -> dict[str, Any]:
    """Scores, intervals, parts, notes and signatures, without the captions' own scores (`--output` has those)."""

    def of(system: str) -> dict[str, Any]:
        rows = {}
        for name, scores in systems[system].items():
            interval = {} if intervals is None else dict(zip(("low", "high"), intervals[system][name], strict=True))
            rows[name] = {"score": scores.score, **interval, "parts": scores.parts, "signature": scores.signature}
            rows[name]["notes"] = scores.notes
        return {"metrics": rows, "notes": systems[system].notes}

    if len(systems) == 1:
        (system,) = systems
        return {"capmeter": capmeter.__version__, "system": system, **of(system)}
    return {"capmeter": capmeter.__version__, "systems": {system: of(system) for system in systems}}


def rendered(table: Table, data: dict[str, Any], format: str) -> str:
    """The table as text in one of the machine-readable formats."""
    if format == "csv":
        return scores_as_csv(data) if "metrics" in data or "systems" in data else as_csv(table)
    if format == "latex":
        return as_latex(table)
    if format == "json":
        return json.dumps(data, indent=2) + "\n"
    raise InputError(f"unknown format {format!r}; expected one of {', '.join(FORMATS)}")
