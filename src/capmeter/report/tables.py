"""Tables for terminals, pipes, papers and programs, from one model: columns and rows of cells.

Every format shows the same numbers: text is laid out by Rich, LaTeX has booktabs rules, Markdown is a pipe table, CSV
and JSON have full precision.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from capmeter.captions.layouts.programs import is_results
from capmeter.core.csv_text import CsvWriter
from capmeter.core.errors import InputError
from capmeter.core.terminal import escape_controls
from capmeter.report.metric_names import MetricName

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

FORMATS = ("table", "json", "csv", "latex", "markdown")
PIPE_WIDTH = 200
"""The longest line of a table in a pipe or file."""
_LATEX = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
)
_TEXT_WIDTH = 24
"""A column of text gets at least this width before the numbers next to it move to another part of the table."""
_HEAD_WIDTH = 10
"""A long heading may be broken, but not into lines shorter than this."""
_WORD, _PIECE = r"\S+", r"[^\s=+,/]+[=+,/]*|[=+,/]+"
_MARKDOWN = r"[\\`*_|~#]|(?<=\])\("


@dataclass(frozen=True)
class Table:
    """Columns with a heading each, and rows of cells; `numeric` columns are aligned to the right.

    In the cells of `bold` (row, column) the first word, the number itself, is bold where a format has bold.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    numeric: Sequence[bool]
    note: str = ""
    bold: Set[tuple[int, int]] = frozenset()


def render(table: Table, data: Mapping[str, Any], format: str) -> str:
    """The table in one of the formats for programs and papers.

    Args:
        table: its rows as they are printed.
        data: its content as JSON values; results of systems become CSV in full precision.
        format: one of `FORMATS` except `table`, which `print_table` prints.
    """
    if format == "csv":
        return _results_csv(data) if is_results(data) else to_csv(table)
    if format == "latex":
        return _to_latex(table)
    if format == "markdown":
        return _to_markdown(table)
    if format == "json":
        return json.dumps(data, indent=2) + "\n"
    raise InputError(f"unknown format {format!r}; expected one of {', '.join(FORMATS)}")


def print_table(table: Table, console: Console) -> None:
    """Prints the table on a Rich console: in parts, one below the other, where its numbers do not fit the width.

    Where the console is not a terminal, bold cells have a star.
    """
    from rich import box
    from rich.table import Table as RichTable

    layout = _Layout(table, console.width, bold=console.is_terminal)
    note = table.note if console.is_terminal else table.note.replace("bold:", "*:")
    parts: list[Any] = [escape_controls(table.title)]
    for columns in layout.parts():
        widths = layout.column_widths(columns)
        part = RichTable(box=box.SIMPLE_HEAD)
        for c in columns:
            justify: Any = "right" if table.numeric[c] else "left"
            part.add_column(layout.heads[c], justify=justify, overflow="fold", width=widths[c])
        for row in layout.cells:
            part.add_row(*(_fold_words(row[c], widths[c]) for c in columns))
        parts.append(part)
    for each in (*parts, escape_controls(note)):
        if each:
            console.print(each, markup=False)


class _Layout:
    """Which columns of a table are printed next to each other, and how wide."""

    def __init__(self, table: Table, width: int, *, bold: bool) -> None:
        from rich.text import Text

        self.table, self.width = table, width
        self.heads = [Text(escape_controls(name)) for name in table.columns]
        self.cells = [[self._cell(r, c, bold) for c in range(len(row))] for r, row in enumerate(table.rows)]
        words = [max((len(word) for word in head.plain.split()), default=0) for head in self.heads]
        # the width in which no cell is wrapped, and that in which the heading is not wrapped either
        self.needed = [
            max([min(words[c], _HEAD_WIDTH), *(row[c].cell_len for row in self.cells)]) for c in range(len(words))
        ]
        self.full = [max(head.cell_len, needed) for head, needed in zip(self.heads, self.needed, strict=True)]

    def _cell(self, r: int, c: int, bold: bool) -> Text:
        """A cell's text with its first word bold; or with a star behind it, for which its column has room."""
        from rich.text import Text

        first_word, space, other_words = escape_controls(str(self.table.rows[r][c])).partition(" ")
        is_bold = (r, c) in self.table.bold
        if not bold and any(column == c for _, column in self.table.bold):
            first_word += "*" if is_bold else " "
        return Text(first_word, "bold" if is_bold else "").append(space + other_words, "not bold")

    def parts(self) -> list[list[int]]:
        """The columns of each part of the table that fits the width; the text at its left begins every part."""
        numeric = self.table.numeric
        least_widths = [each if numeric[c] else min(each, _TEXT_WIDTH) for c, each in enumerate(self.needed)]
        first_numeric = numeric.index(True) if True in numeric else len(numeric)
        text_columns, parts = list(range(first_numeric)), [list(range(first_numeric))]
        for c in range(first_numeric, len(numeric)):
            if parts[-1] != text_columns and _table_width([least_widths[k] for k in [*parts[-1], c]]) > self.width:
                parts.append(list(text_columns))
            parts[-1].append(c)
        return parts

    def column_widths(self, columns: Sequence[int]) -> dict[int, int | None]:
        """The width of each of these columns; None leaves it to Rich."""
        numeric = self.table.numeric
        # a number is never broken, and a short word is not while there is room
        least_widths = [self.needed[c] if numeric[c] else min(self.needed[c], _TEXT_WIDTH) for c in columns]
        fits = _table_width(least_widths) <= self.width
        unbroken_columns = [c for c in columns if numeric[c] or (fits and self.needed[c] <= _TEXT_WIDTH)]
        wrapped_columns = [c for c in columns if c not in unbroken_columns]
        spare_width = self.width - _table_width(
            [self.needed[c] if c in unbroken_columns else self.full[c] for c in columns]
        )
        cell_texts = [[self.heads[c].plain, *(row[c].plain for row in self.cells)] for c in wrapped_columns]
        widths = dict(
            zip(
                wrapped_columns,
                _wrapped_widths(cell_texts, [self.full[c] for c in wrapped_columns], spare_width),
                strict=True,
            )
        )
        for c in unbroken_columns:
            widths[c] = self.needed[c] + min(max(spare_width, 0), self.full[c] - self.needed[c])
            spare_width -= min(max(spare_width, 0), self.full[c] - self.needed[c])
        return widths


def _table_width(columns: Sequence[int]) -> int:
    """Of a table with columns of these widths: a blank on both sides of each, and a rule's place between them."""
    return sum(columns) + 3 * len(columns) + 1


def _wrapped_widths(columns: Sequence[Sequence[str]], full_widths: Sequence[int], spare: int) -> list[int | None]:
    """Widths of columns that must be wrapped to fit, none below its longest word; None where no widths would do.

    Where the words do not fit, their pieces count (`encoder=` and `minilm`).
    """
    room = sum(full_widths) + spare
    for piece in (_WORD, _PIECE):
        least = [max((len(each) for cell in cells for each in re.findall(piece, cell)), default=1) for cells in columns]
        if spare < 0 and sum(least) <= room:
            loose = [most - few for few, most in zip(least, full_widths, strict=True)]  # what each column could use
            return [
                few + (room - sum(least)) * each // max(sum(loose), 1) for few, each in zip(least, loose, strict=True)
            ]
    return [None] * len(columns)


def _fold_words(cell_text: Text, column_width: int | None) -> Text:
    """The cell with a line break inside each word that is longer than its column, between pieces."""
    from rich.text import Text

    if column_width is None or max(map(len, cell_text.plain.split()), default=0) <= column_width:
        return cell_text
    lines = [""]
    for word in cell_text.plain.split():
        blank = " " if lines[-1] else ""
        for piece in [word] if len(word) <= column_width else re.findall(_PIECE, word):
            if len(lines[-1]) + len(blank) + len(piece) > column_width:
                lines.append(piece)
            else:
                lines[-1] += blank + piece
            blank = ""
    return Text("\n".join(lines))


def to_csv(table: Table) -> str:
    """Comma-separated values with a heading."""
    text = io.StringIO()
    writer = CsvWriter(text)
    for row in (table.columns, *table.rows):
        writer.write(row)
    return text.getvalue()


def _results_csv(data: Mapping[str, Any]) -> str:
    """What `scores_to_dict` gave as comma-separated values in full precision: one row per system and metric."""
    rows = [
        [system, metric, scores["score"], scores.get("low", ""), scores.get("high", ""), scores["signature"]]
        for system, results in data["systems"].items()
        for metric, scores in results["metrics"].items()
    ]
    return to_csv(Table("", ["system", "metric", "score", "low", "high", "signature"], rows, []))


def _to_latex(table: Table) -> str:
    """A `tabular` with rules of the booktabs package, metrics as papers print them; the note is a comment."""

    def escape(cell: Any) -> str:
        return escape_controls(cell.printed if isinstance(cell, MetricName) else str(cell)).translate(_LATEX)

    lines = [r"\begin{tabular}{" + "".join("r" if numeric else "l" for numeric in table.numeric) + "}", r"\toprule"]
    table_rows = _escaped_rows(table, escape, lambda word: rf"\textbf{{{word}}}")
    head_line = " & ".join(escape(column) for column in table.columns)
    # a bracket after the end of a row would be read as the row's distance to the next
    body = [(f"{{}}{line}" if line.startswith(("[", "*")) else line) + r" \\" for line in map(" & ".join, table_rows)]
    note_lines = [f"% {escape_controls(' '.join(text.split()))}" for text in (table.title, table.note) if text]
    end_lines = [r"\bottomrule", r"\end{tabular}", r"% \usepackage{booktabs}"]
    return "\n".join([*lines, head_line + r" \\", r"\midrule", *body, *end_lines, *note_lines, ""])


def _to_markdown(table: Table) -> str:
    """A pipe table, as pull requests and README files show it."""

    def escape(cell: Any) -> str:
        text = escape_controls(" ".join(str(cell).split())).replace("&", "&amp;").replace("<", "&lt;")
        return re.sub(_MARKDOWN, r"\\\g<0>", text)

    table_rows = _escaped_rows(table, escape, lambda word: f"**{word}**")
    rules = ["---:" if numeric else "---" for numeric in table.numeric]
    lines = [
        "| " + " | ".join(row) + " |" for row in [[escape(column) for column in table.columns], rules, *table_rows]
    ]
    title_lines = [f"{escape(table.title)}\n"] if table.title else []
    return "\n".join([*title_lines, *lines, *([f"\n{escape(table.note)}"] if table.note else []), ""])


def _escaped_rows(table: Table, escape: Callable[[Any], str], bold: Callable[[str], str]) -> list[list[str]]:
    """The escaped cells, with the first word of bold ones in bold."""
    rows = [[escape(cell) for cell in row] for row in table.rows]
    for r, c in table.bold:
        word, space, rest = rows[r][c].partition(" ")
        rows[r][c] = bold(word) + space + rest
    return rows
