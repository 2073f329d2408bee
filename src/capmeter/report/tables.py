"""Tables for terminals, pipes, papers and programs, from one model: columns and rows of cells.

Every format shows the same numbers: text is laid out by Rich, LaTeX has booktabs rules, Markdown is a pipe table, CSV
and JSON have full precision.

Of metrics with one name a table shows only the arguments in which they differ; the note has their names in full. A
LaTeX table goes into a paper, so that it has the names that papers print, with arrows to the better end.

>>> names = name_metrics(["chair(objects=o.json)", "chair(level=caption,objects=o.json)", "cider-d(sigma=8.0)"])
>>> list(map(str, names.values()))
['chair', 'chair · caption', 'cider-d']
>>> name_metrics(["cider-d"], lower=()) ["cider-d"].printed
'CIDEr-D ↑'
"""

from __future__ import annotations

import io
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from capmeter.captions.layouts import is_results
from capmeter.core.errors import InputError
from capmeter.core.messages import escape_controls
from capmeter.core.named import split_text
from capmeter.core.output_files import CsvWriter

if TYPE_CHECKING:
    from rich.console import Console


_SPELLINGS = """
    ROUGE-L METEOR CIDEr-D CIDEr-R SPICE SPIDEr Soft-SPICE WMD MOWE WEmbSim HWCM BERTScore TBR TBR-unigram SPARCS
    SPURTS MIMA SMURF NNEval LCEval LEIC UMIC CLIPScore RefCLIPScore PAC-S RefPAC-S SigLIP-Score BLIP-ITM CLAIR FLEUR
    G-VEval SBERT CHAIR ALOHa AMBER
"""
_LONGEST = 30  # letters of an argument's value
_PRINTED = {name.lower(): name for name in _SPELLINGS.split()} | {"cider": "CIDEr (original)"}


class MetricName(str):
    """A metric's short name in a table's cell (`name_metrics`).

    Attributes:
        full: the name that can be parsed.
        lower_is_better: None: the numbers are no scores of the metric.
    """

    full: str
    lower_is_better: bool | None

    @property
    def printed(self) -> str:
        """The field's spelling of the name, then its arguments and an arrow; an unknown name is unchanged."""
        name, dot, arguments = self.partition(" · ")
        printed = name.upper() if name.startswith("bleu-") else _PRINTED.get(name, name)
        return printed + dot + arguments + {None: "", True: " ↓", False: " ↑"}[self.lower_is_better]


def name_metrics(names: Iterable[str], lower: Container[str] | None = None) -> dict[str, MetricName]:
    """Short names of metrics that stand side by side, by their full ones.

    Args:
        names: all metrics of a table or page.
        lower: those of which lower is better; None: no scores are shown.
    """
    split_names = {name: _split_arguments(name) for name in names}
    short_names: dict[str, MetricName] = {}
    for name, (base, arguments) in split_names.items():
        same_base = [set(others) for other_base, others in split_names.values() if other_base == base]
        own_values = [_format_argument(text) for text in arguments if text not in set.intersection(*same_base)]
        short_names[name] = MetricName(f"{base} · {', '.join(own_values)}" if own_values else base)
    for name, count in Counter(short_names.values()).items():
        if count > 1:  # such as files of one name in two folders
            short_names |= {full: MetricName(full) for full, short in short_names.items() if short == name}
    for name, short in short_names.items():
        short.full, short.lower_is_better = name, None if lower is None else name in lower
    return short_names


def _split_arguments(name: str) -> tuple[str, list[str]]:
    base, _, inside = name.partition("(")
    try:
        return (base, split_text(inside[:-1], ",")) if base and inside.endswith(")") else (name, [])
    except InputError:  # another program's name
        return name, []


def _format_argument(text: str) -> str:
    """A word without its parameter, a file without its folder."""
    parameter, equals, value = text.partition("=")
    if value == "true":
        return parameter
    if value.replace("-", "").isalnum() and value[0].isalpha() and value not in ("false", "none"):
        return value
    shown = value if "(" in value else re.split(r"[/\\]", value)[-1]
    return f"{parameter}{equals}{shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + '…'}"


def default_digits(scale: float) -> int:
    """Decimals of scores in tables: four for scores as they are, two for scores times 100."""
    return max(0, 4 - round(math.log10(scale)))


def format_scale(scale: float) -> str:
    """The end of a title that says by what its scores are multiplied."""
    return "" if scale == 1 else f", scores x {scale:g}"


FORMATS = ("table", "json", "csv", "latex", "markdown")
PIPE_WIDTH = 200
"""The longest line of a table in a pipe or file."""
_LATEX = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"·": r"$\cdot$", "↑": r"$\uparrow$", "↓": r"$\downarrow$"}
)
_TEXT_WIDTH = 24
"""A column of text gets at least this width before the numbers next to it move to another part of the table."""
_HEAD_WIDTH = 10
"""A long heading may be broken, but not into lines shorter than this."""
_RAISED = "raised letters: significantly better than these systems"
_MARKDOWN = r"[\\`*_|~#]|(?<=\])\("


@dataclass(frozen=True)
class Table:
    """Columns with a heading each, and rows of cells; `numeric` columns are aligned to the right.

    In the cells of `bold` (row, column) the first word, the number itself, is bold where a format has bold. LaTeX has
    the letters of `marks` (row, column; row -1: the heading) behind it, raised.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    numeric: Sequence[bool]
    note: str = ""
    bold: Set[tuple[int, int]] = frozenset()
    marks: Mapping[tuple[int, int], str] = field(default_factory=dict)

    @property
    def full_note(self) -> str:
        """The note, then the metrics of which lower is better, and the full names of those with a short one."""
        cells = [cell for row in (self.columns, *self.rows) for cell in row]
        metrics = list({cell.full: cell for cell in cells if isinstance(cell, MetricName)}.values())
        listed = {
            "lower is better": [str(metric) for metric in metrics if metric.lower_is_better],
            "in full": [metric.full for metric in metrics if metric != metric.full],
        }
        notes = [f"{what}: {', '.join(names)}" for what, names in listed.items() if names]
        return "; ".join(filter(None, [self.note, *notes]))


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
    from rich.text import Text

    def cell_text(r: int, c: int) -> Text:
        first_word, space, other_words = escape_controls(str(table.rows[r][c])).partition(" ")
        is_bold = (r, c) in table.bold
        if not console.is_terminal and any(column == c for _, column in table.bold):
            first_word += "*" if is_bold else " "
        return Text(first_word, "bold" if is_bold else "").append(space + other_words, "not bold")

    heads = [Text(escape_controls(name)) for name in table.columns]
    cells = [[cell_text(r, c) for c in range(len(row))] for r, row in enumerate(table.rows)]
    # the width in which no cell is wrapped, and no heading's first letters
    needed = [
        max(min(head.cell_len, _HEAD_WIDTH), *(row[c].cell_len for row in cells), 0) for c, head in enumerate(heads)
    ]
    fits = _table_width([max(head.cell_len, width) for head, width in zip(heads, needed, strict=True)]) <= console.width
    if table.title:
        console.print(escape_controls(table.title), markup=False)
    for columns in [list(range(len(heads)))] if fits else _split_columns(table.numeric, needed, console.width):
        part = RichTable(box=box.SIMPLE_HEAD)
        for c in columns:
            justify: Any = "right" if table.numeric[c] else "left"
            width = None if fits or not table.numeric[c] else needed[c]  # a number is never broken
            part.add_column(heads[c], justify=justify, overflow="fold", width=width)
        for row in cells:
            part.add_row(*(row[c] for c in columns))
        console.print(part)
    note = table.full_note if console.is_terminal else table.full_note.replace("bold:", "*:")
    if note:
        console.print(escape_controls(note), markup=False)


def _split_columns(numeric: Sequence[bool], needed: Sequence[int], width: int) -> list[list[int]]:
    """The columns of each part of a table that fits this width; the text at its left begins every part."""
    least_widths = [each if numeric[c] else min(each, _TEXT_WIDTH) for c, each in enumerate(needed)]
    first_numeric = list(numeric).index(True) if True in numeric else len(numeric)
    text_columns, parts = list(range(first_numeric)), [list(range(first_numeric))]
    for c in range(first_numeric, len(numeric)):
        if parts[-1] != text_columns and _table_width([least_widths[k] for k in [*parts[-1], c]]) > width:
            parts.append(list(text_columns))
        parts[-1].append(c)
    return parts


def _table_width(columns: Sequence[int]) -> int:
    """Of a table with columns of these widths: a blank on both sides of each, and a rule's place between them."""
    return sum(columns) + 3 * len(columns) + 1


def to_csv(table: Table) -> str:
    """Comma-separated values with a heading."""
    text = io.StringIO()
    writer = CsvWriter(text)
    for row in (table.columns, *table.rows):
        writer.write([cell.full if isinstance(cell, MetricName) else cell for cell in row])
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
    head, *table_rows = _escaped_rows(table, escape, lambda word: rf"\textbf{{{word}}}", r"\textsuperscript{{{}}}")
    # a bracket after the end of a row would be read as the row's distance to the next
    body = [(f"{{}}{line}" if line.startswith(("[", "*")) else line) + r" \\" for line in map(" & ".join, table_rows)]
    notes = [table.title, table.full_note, _RAISED if table.marks else ""]
    note_lines = [f"% {escape_controls(' '.join(text.split()))}" for text in notes if text]
    end_lines = [r"\bottomrule", r"\end{tabular}", r"% \usepackage{booktabs}"]
    return "\n".join([*lines, " & ".join(head) + r" \\", r"\midrule", *body, *end_lines, *note_lines, ""])


def _to_markdown(table: Table) -> str:
    """A pipe table, as pull requests and README files show it."""

    def escape(cell: Any) -> str:
        text = escape_controls(" ".join(str(cell).split())).replace("&", "&amp;").replace("<", "&lt;")
        return re.sub(_MARKDOWN, r"\\\g<0>", text)

    head, *table_rows = _escaped_rows(table, escape, lambda word: f"**{word}**")
    rules = ["---:" if numeric else "---" for numeric in table.numeric]
    lines = ["| " + " | ".join(row) + " |" for row in [head, rules, *table_rows]]
    title_lines = [f"{escape(table.title)}\n"] if table.title else []
    return "\n".join([*title_lines, *lines, *([f"\n{escape(table.full_note)}"] if table.full_note else []), ""])


def _escaped_rows(
    table: Table, escape: Callable[[Any], str], bold: Callable[[str], str], mark: str = ""
) -> list[list[str]]:
    """The escaped cells, the heading first: of bold ones the first word in bold; marked ones with the `mark` there."""
    rows = [[escape(cell) for cell in row] for row in (table.columns, *table.rows)]
    for (r, c), letters in {**dict.fromkeys(table.bold, ""), **table.marks}.items():
        word, space, rest = rows[r + 1][c].partition(" ")
        raised = mark.format(letters) if letters else ""
        is_score = r >= 0 and table.numeric[c]  # whose letters stand behind the number, not behind its interval
        number = (bold(word) if (r, c) in table.bold else word) + (raised if is_score else "")
        rows[r + 1][c] = number + space + rest + ("" if is_score else raised)
    return rows
