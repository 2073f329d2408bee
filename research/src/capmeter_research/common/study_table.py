"""A study's table: what was found, beside what a paper printed; for a terminal, a program, and as a figure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from capmeter.report.figures import house_style, open_figure, series_style
from capmeter.report.tables import Table


@dataclass(frozen=True)
class StudyRow:
    """One line: its name, what was found by column, and what the paper printed by column."""

    name: str
    found: Mapping[str, float]
    paper: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Part:
    """One table of a study. `notes`: remarks under it. `source`: the paper that printed values are from."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[StudyRow, ...]
    notes: tuple[str, ...] = ()
    source: str = ""


def part_table(part: Part) -> Table:
    """One row per metric: what was found, and in parentheses what the paper printed."""
    table_rows = [
        [row.name, *(_cell(row.found.get(column), row.paper.get(column)) for column in part.columns)]
        for row in part.rows
    ]
    printed = any(row.paper for row in part.rows)
    notes = [*part.notes, *([f"in parentheses: {part.source}"] if printed else [])]
    return Table(part.title, ["", *part.columns], table_rows, [False] + [True] * len(part.columns), "; ".join(notes))


def part_to_dict(part: Part) -> dict[str, Any]:
    """The same as JSON values."""
    rows = [{"name": row.name, "found": dict(row.found), "published": dict(row.paper)} for row in part.rows]
    return {"title": part.title, "source": part.source, "rows": rows, "notes": list(part.notes)}


@house_style()
def part_figure(part: Part) -> Any:
    """Of two columns a scatter of one against the other; of more, a line per row over the columns."""
    figure, axes = open_figure(width=6.4, height=4.4)
    panel = axes[0, 0]
    if len(part.columns) == 2:
        x_column, y_column = part.columns
        for series_index, row in enumerate(part.rows):
            style = series_style(series_index)
            panel.plot(
                row.found[x_column], row.found[y_column], marker=style["marker"], color=style["color"], linestyle=""
            )
            panel.annotate(
                row.name,
                (row.found[x_column], row.found[y_column]),
                xytext=(4, 3),
                textcoords="offset points",
                fontsize=7,
            )
        panel.set_xlabel(x_column)
        panel.set_ylabel(y_column)
    else:
        for series_index, row in enumerate(part.rows):
            paper_columns = [column for column in part.columns if column in row.found]
            panel.plot(
                paper_columns,
                [row.found[column] for column in paper_columns],
                label=row.name,
                **series_style(series_index),
            )
        figure.legend(loc="outside lower center", ncols=4)
    panel.set_title(part.title, fontsize=8)
    return figure


def _cell(found_value: float | None, paper_value: float | None) -> str:
    if found_value is None:
        return "-"
    return _number(found_value) if paper_value is None else f"{_number(found_value)} ({_number(paper_value)})"


def _number(value: float) -> str:
    return f"{value:.3f}" if abs(value) <= 1 else f"{value:.1f}"
