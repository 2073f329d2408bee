"""Scores as tables: for the eye, for a paper, for a program.

A table is a list of columns and rows of cells, so that every format shows the same numbers.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from capmeter.captions.csvtext import CsvWriter
from capmeter.errors import InputError
from capmeter.meta.standing import Standing
from capmeter.metrics.results_file import enclosed, is_results
from capmeter.metrics.scores import Results
from capmeter.printable import printable
from capmeter.report.names import MetricName
from capmeter.stats.significance import LEVEL, alpha

FORMATS = ("table", "json", "csv", "latex", "markdown")
_LATEX = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
)
_WORDS = 24
"""A column of words gets at least this width before the numbers beside it go into another part of the table."""
_WORD, _PIECE = r"\S+", r"[^\s=+,/]+[=+,/]*|[=+,/]+"
_MARKDOWN = r"[\\`*_|~#]|(?<=\])\("


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
    systems: Mapping[str, Results],
    standing: Mapping[str, Standing] | None = None,
    digits: int = 4,
    scale: float = 1,
    untested: str = "",
) -> Table:
    """One row per metric for a single system; else systems and metrics, the more numerous downward.

    With their standing, scores have intervals where there are any, and the best of each metric are bold: the highest
    and all that are not significantly below it. Scores are multiplied by `scale`; `untested` says why none are bold.
    """
    bounded = standing is not None and any(each.intervals for each in standing.values())

    def cell(system: str, metric: str) -> list[str]:
        if metric not in set(systems[system]):
            return ["-"]
        score = f"{scale * systems[system][metric].score:.{digits}f}"
        if standing is None or system not in standing[metric].intervals:
            return [score]
        low, high = (scale * bound for bound in standing[metric].intervals[system])
        return [score, f"[{low:.{digits}f}, {high:.{digits}f}]"]

    metrics = [MetricName(name) for name in dict.fromkeys(name for results in systems.values() for name in results)]
    level = next(iter(standing.values())).level if standing else LEVEL
    scaled = "" if scale == 1 else f", scores x {scale:g}"
    if len(systems) == 1:
        (system,) = systems
        heads = ["metric", "score"] + ([f"{100 * level:g}% interval"] if bounded else [])
        rows = [[metric, *cell(system, metric), ""][: len(heads)] for metric in metrics]
        return Table(_count(systems[system]) + scaled, heads, rows, [False] + [True] * (len(heads) - 1))
    title = _count(next(iter(systems.values()))) + " each" + scaled
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
    notes = [f"in brackets: {100 * level:g}% interval, images resampled with replacement"] if bounded else []
    if best:
        notes.append(
            "bold: the best of each metric, and all that are not significantly below it (paired permutation test, "
            f"Holm, p < {alpha(level):g})"
        )
    if untested:
        notes.append(untested.rstrip("."))
    return Table(title, heads, rows, [False] + [True] * (len(heads) - 1), "; ".join(notes), best)


def _count(results: Results) -> str:
    captions, images = len(results.ids.names), len(results.ids.clusters)
    return f"{captions:,} caption{'s' * (captions != 1)} of {images:,} image{'s' * (images != 1)}"


def print_table(table: Table, console: Any) -> None:
    """Shows the table on a rich console: in parts, one below the other, where its numbers do not fit the width."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    plain = not console.is_terminal

    def cell(r: int, c: int) -> Text:
        word, rest = _first_word(table, r, c, plain)
        return Text(word, "bold" if (r, c) in table.bold else "").append(rest, "not bold")

    cells = [[cell(r, c) for c in range(len(row))] for r, row in enumerate(table.rows)]
    heads = [Text(printable(name)) for name in table.columns]
    # a long heading may be broken, but not into less than eight characters a line
    longest = [max((len(word) for word in head.plain.split()), default=0) for head in heads]
    needed = [max([min(longest[c], 8), *(row[c].cell_len for row in cells)]) for c in range(len(heads))]
    parts: list[Any] = [table.title]
    for columns in _parts(table, needed, console.width):
        shown = RichTable(box=box.SIMPLE_HEAD)
        wanted = {c: max(heads[c].cell_len, needed[c]) for c in columns}
        # a number is never broken, and a short word is not while there is room
        short = {c for c in columns if table.numeric[c] or needed[c] <= _WORDS}
        if _width([min(needed[c], _WORDS) if not table.numeric[c] else needed[c] for c in columns]) > console.width:
            short = {c for c in columns if table.numeric[c]}
        spare = console.width - _width([needed[c] if c in short else wanted[c] for c in columns])
        wide = [c for c in columns if c not in short]
        widths = _wrapped([[heads[c], *(row[c] for row in cells)] for c in wide], [wanted[c] for c in wide], spare)
        for c in columns:
            width = widths[wide.index(c)] if c in wide else None
            if c in short:
                width = needed[c] + min(max(spare, 0), wanted[c] - needed[c])
                spare -= width - needed[c]
            justify: Any = "right" if table.numeric[c] else "left"
            shown.add_column(heads[c], justify=justify, overflow="fold", width=width)
        for row in cells:
            shown.add_row(*(_folded(row[c], widths[wide.index(c)]) if c in wide else row[c] for c in columns))
        parts.append(shown)
    parts.append(_plain_note(table) if plain else table.note)
    for text in parts:
        if text:
            console.print(text if isinstance(text, RichTable) else printable(text), markup=False)


def as_text(table: Table) -> str:
    """What `print_table` shows where there is no terminal, of any width: for pipes and files.

    Of Rich only the widths of characters are loaded, where there are others than ASCII's.
    """
    cells = [["".join(_first_word(table, r, c, True)) for c in range(len(row))] for r, row in enumerate(table.rows)]
    lines = [list(map(printable, table.columns)), *cells]
    widths = [max(map(_terminal_width, column)) for column in zip(*lines, strict=True)]

    def line(row: list[str]) -> str:
        blanks = [
            " " * (width - _terminal_width(cell)) for width, cell in zip(widths, map(str.rstrip, row), strict=True)
        ]
        padded = zip(blanks, map(str.rstrip, row), table.numeric, strict=True)
        return f"  {'   '.join(blank + cell if right else cell + blank for blank, cell, right in padded)}  "

    across = _width(widths)
    head, *rows = map(line, lines)
    shown = [" " * across, head, f" {'─' * (across - 2)} ", *rows, " " * across]
    around = [printable(text) for text in (table.title, _plain_note(table))]
    return "".join(f"{each}\n" for each in (*around[:1], *shown, *around[1:]) if each)


def _terminal_width(text: str) -> int:
    """How many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _first_word(table: Table, r: int, c: int, plain: bool) -> tuple[str, str]:
    """A cell's first word, and the rest; in plain text a star is behind the word where it would be bold."""
    word, space, rest = printable(str(table.rows[r][c])).partition(" ")
    starred = plain and any(column == c for _, column in table.bold)
    return word + ("" if not starred else "*" if (r, c) in table.bold else " "), space + rest


def _plain_note(table: Table) -> str:
    return table.note.replace("bold:", "*:")


def _wrapped(columns: Sequence[Sequence[Any]], wanted: Sequence[int], spare: int) -> list[int | None]:
    """Widths of columns that must be wrapped to fit, none below its longest word; None where no widths would do.

    Where the words do not fit, their pieces count (`encoder=` and `minilm`).
    """
    room = sum(wanted) + spare
    for piece in (_WORD, _PIECE):
        least = [
            max((len(each) for cell in column for each in re.findall(piece, cell.plain)), default=1)
            for column in columns
        ]
        if spare < 0 and sum(least) <= room:
            loose = [most - few for few, most in zip(least, wanted, strict=True)]  # what each column could use
            return [
                few + (room - sum(least)) * each // max(sum(loose), 1) for few, each in zip(least, loose, strict=True)
            ]
    return [None] * len(columns)


def _folded(cell: Any, width: int | None) -> Any:
    """The cell with a line break inside each word that is longer than its column, between pieces."""
    from rich.text import Text

    if width is None or max(map(len, cell.plain.split()), default=0) <= width:
        return cell
    lines = [""]
    for word in cell.plain.split():
        blank = " " if lines[-1] else ""
        for piece in [word] if len(word) <= width else re.findall(_PIECE, word):
            if len(lines[-1]) + len(blank) + len(piece) > width:
                lines.append(piece)
            else:
                lines[-1] += blank + piece
            blank = ""
    return Text("\n".join(lines))


def _parts(table: Table, needed: Sequence[int], width: int) -> list[list[int]]:
    """The columns of each part of the table that fits this width; the words at its left begin every part."""
    least = [each if numeric else min(each, _WORDS) for each, numeric in zip(needed, table.numeric, strict=True)]
    first = table.numeric.index(True) if True in table.numeric else len(table.columns)
    words, parts = list(range(first)), [list(range(first))]
    for c in range(first, len(table.columns)):
        if parts[-1] != words and _width([least[k] for k in [*parts[-1], c]]) > width:
            parts.append(list(words))
        parts[-1].append(c)
    return parts


def _width(columns: Sequence[int]) -> int:
    """Of a table with columns of these widths: a blank on both sides of each, and a rule's place between them."""
    return sum(columns) + 3 * len(columns) + 1


def as_csv(table: Table) -> str:
    """Comma-separated values with a heading."""
    text = io.StringIO()
    writer = CsvWriter(text)
    for row in (table.columns, *table.rows):
        writer.write(row)
    return text.getvalue()


def scores_as_csv(data: dict[str, Any]) -> str:
    """What `scores_to_dict` gave as comma-separated values in full precision: one row per system and metric."""
    rows = [
        [system, metric, scores["score"], scores.get("low", ""), scores.get("high", ""), scores["signature"]]
        for system, results in data["systems"].items()
        for metric, scores in results["metrics"].items()
    ]
    return as_csv(Table("", ["system", "metric", "score", "low", "high", "signature"], rows, []))


def as_latex(table: Table) -> str:
    """A `tabular` with rules of the booktabs package, metrics as papers print them; the note is a comment."""

    def plain(cell: Any) -> str:
        return printable(cell.printed if isinstance(cell, MetricName) else str(cell)).translate(_LATEX)

    lines = [r"\begin{tabular}{" + "".join("r" if numeric else "l" for numeric in table.numeric) + "}", r"\toprule"]
    rows = _cells(table, plain, lambda word: rf"\textbf{{{word}}}")
    head = " & ".join(plain(column) for column in table.columns)
    # a bracket after the end of a row would be read as the row's distance to the next
    body = [(f"{{}}{line}" if line.startswith(("[", "*")) else line) + r" \\" for line in map(" & ".join, rows)]
    note = [f"% {printable(' '.join(text.split()))}" for text in (table.title, table.note) if text]
    end = [r"\bottomrule", r"\end{tabular}", r"% \usepackage{booktabs}"]
    return "\n".join([*lines, head + r" \\", r"\midrule", *body, *end, *note, ""])


def as_markdown(table: Table) -> str:
    """A pipe table, as pull requests and README files show it."""

    def plain(cell: Any) -> str:
        text = printable(" ".join(str(cell).split())).replace("&", "&amp;").replace("<", "&lt;")
        return re.sub(_MARKDOWN, r"\\\g<0>", text)

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


def scores_to_dict(systems: Mapping[str, Results], standing: Mapping[str, Standing] | None = None) -> dict[str, Any]:
    """Scores, intervals, parts, notes and signatures, in the layout of `--output` without the captions' own scores.

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

    return enclosed({system: of(system) for system in systems})


def rendered(table: Table, data: dict[str, Any], format: str) -> str:
    """The table as text in one of the machine-readable formats."""
    if format == "csv":
        return scores_as_csv(data) if is_results(data) else as_csv(table)
    if format == "latex":
        return as_latex(table)
    if format == "markdown":
        return as_markdown(table)
    if format == "json":
        return json.dumps(data, indent=2) + "\n"
    raise InputError(f"unknown format {format!r}; expected one of {', '.join(FORMATS)}")
