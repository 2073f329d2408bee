"""Scores as tables: for the eye, for a paper, for a program.

A table is a list of columns and rows of cells, so that every format shows the same numbers.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import capmeter
from capmeter.errors import InputError
from capmeter.metrics.scores import Results
from capmeter.report.standing import ALPHA, Standing

FORMATS = ("table", "json", "csv", "latex", "markdown")
_LATEX = str.maketrans({c: f"\\{c}" for c in "&%$#_{}"} | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}"})

_MARKDOWN = re.compile(r"[\\`*_|~#]|(?<=\])\(")


@dataclass(frozen=True)
class Table:
    """Columns with a heading each, and rows of cells; `numeric` columns are set to the right.

    In the cells of `bold` (row, column) the first word, the number itself, is set in bold where a format can.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    numeric: Sequence[bool]
    note: str = ""
    bold: Set[tuple[int, int]] = frozenset()


def score_table(
    systems: Mapping[str, Results], standing: Mapping[str, Standing] | None = None, digits: int = 4
) -> Table:
    """One row per metric for a single system; else systems and metrics, the more numerous downward.

    With their standing, scores have intervals, and the best of each metric are bold: the highest and all that are not
    significantly below it.
    """

    def cell(system: str, metric: str) -> list[str]:
        if metric not in set(systems[system]):
            return ["-"]
        score = f"{systems[system][metric].score:.{digits}f}"
        if standing is None or system not in standing[metric].intervals:
            return [score]
        low, high = standing[metric].intervals[system]
        return [score, f"[{low:.{digits}f}, {high:.{digits}f}]"]

    metrics = list(dict.fromkeys(metric for results in systems.values() for metric in results))
    if len(systems) == 1:
        (system,) = systems
        heads = ["metric", "score"] + (["95% interval"] if standing is not None else [])
        rows = [[metric, *cell(system, metric), ""][: len(heads)] for metric in metrics]
        return Table(_count(systems[system]), heads, rows, [False] + [True] * (len(heads) - 1))
    title = _count(next(iter(systems.values()))) + " each"
    rows = [[system, *(" ".join(cell(system, metric)) for metric in metrics)] for system in systems]
    heads = ["system", *metrics]
    best = {
        (s, m)
        for s, system in enumerate(systems)
        for m, metric in enumerate(metrics, 1)
        if standing is not None and system in standing[metric].best
    }
    if len(metrics) > len(systems):  # the longer side downward, so that the table fits a screen
        heads, *rows = (list(line) for line in zip(heads, *rows, strict=True))
        heads[0] = "metric"
        best = {(m - 1, s + 1) for s, m in best}
    return Table(title, heads, rows, [False] + [True] * (len(heads) - 1), _note(standing), best)


def _note(standing: Mapping[str, Standing] | None) -> str:
    if standing is None:
        return ""
    note = "in brackets: 95% interval, images drawn with replacement"
    if any(each.best for each in standing.values()):
        note += (
            "; bold: the best of each metric, and all that are not significantly below it (paired permutation "
            f"test, Holm, p < {ALPHA})"
        )
    return note


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
    plain = not console.is_terminal  # no bold there: a star instead
    starred = {column for _, column in table.bold} if plain else set()
    for r, row in enumerate(table.rows):
        cells = []
        for c, text in enumerate(row):
            word, space, rest = text.partition(" ")
            star = "" if c not in starred else "*" if (r, c) in table.bold else " "
            cells.append(Text(word + star, "bold" if (r, c) in table.bold else "").append(space + rest, "not bold"))
        shown.add_row(*cells)
    for text in (table.title, shown, table.note.replace("bold:", "*:") if plain else table.note):
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
    """A `tabular` with rules of the booktabs package; the note is a comment, for the caption."""
    lines = [r"\begin{tabular}{" + "".join("r" if numeric else "l" for numeric in table.numeric) + "}", r"\toprule"]
    rows = _cells(table, lambda cell: str(cell).translate(_LATEX), lambda word: rf"\textbf{{{word}}}")
    head = " & ".join(str(column).translate(_LATEX) for column in table.columns)
    body = [" & ".join(row) + r" \\" for row in rows]
    note = [f"% {' '.join(text.split())}" for text in (table.title, table.note) if text]
    return "\n".join([*lines, head + r" \\", r"\midrule", *body, r"\bottomrule", r"\end{tabular}", *note, ""])


def as_markdown(table: Table) -> str:
    """A pipe table, as pull requests and README files show it."""

    def plain(cell: Any) -> str:
        text = " ".join(str(cell).split()).replace("&", "&amp;").replace("<", "&lt;")
        return _MARKDOWN.sub(r"\\\g<0>", text)

    rows = _cells(table, plain, lambda word: f"**{word}**")
    rules = ["---:" if numeric else "---" for numeric in table.numeric]
    lines = ["| " + " | ".join(row) + " |" for row in [[plain(column) for column in table.columns], rules, *rows]]
    texts = [f"{plain(table.title)}\n"] if table.title else []
    return "\n".join([*texts, *lines, *([f"\n{plain(table.note)}"] if table.note else []), ""])


def _cells(table: Table, plain: Callable[[Any], str], bold: Callable[[str], str]) -> list[list[str]]:
    """The cells, made harmless, with the first word of bold ones in bold."""
    rows = []
    for r, row in enumerate(table.rows):
        cells = [plain(cell) for cell in row]
        for c, text in enumerate(cells):
            if (r, c) in table.bold:
                word, space, rest = text.partition(" ")
                cells[c] = bold(word) + space + rest
        rows.append(cells)
    return rows


def as_json(systems: Mapping[str, Results], standing: Mapping[str, Standing] | None = None) -> dict[str, Any]:
    """Scores, intervals, parts, notes and signatures, without the captions' own scores (`--output` has those).

    Of several systems also whether each is among the best, and which systems it is significantly above.
    """

    def of(system: str) -> dict[str, Any]:
        rows = {}
        for name, scores in systems[system].items():
            found: dict[str, Any] = {}
            if standing is not None and system in standing[name].intervals:
                found = dict(zip(("low", "high"), standing[name].intervals[system], strict=True))
            if standing is not None and standing[name].best:
                found |= {"best": system in standing[name].best, "above": sorted(standing[name].beats[system])}
            rows[name] = {"score": scores.score, **found, "parts": scores.parts, "signature": scores.signature}
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
    if format == "markdown":
        return as_markdown(table)
    if format == "json":
        return json.dumps(data, indent=2) + "\n"
    raise InputError(f"unknown format {format!r}; expected one of {', '.join(FORMATS)}")
