"""The study of the captioner as tables beside the paper's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from capmeter.report.tables import Table
from capmeter_research.common.published import paper_source, paper_table
from capmeter_research.papers.subicap.study import Length, Segmented


def length_table(rows: Sequence[Length]) -> Table:
    """Table A.1, and the lengths of Table A.2."""
    paper_rows, table_rows = _paper_lengths(), []
    for row in rows:
        # the number of words follows from the captions; other vocabularies must be the paper's
        matching = [line for line in paper_rows if line["segmentation"] == row.segmentation]
        printed = next((line for line in matching if row.segmentation == "word" or line["entries"] == row.entries), {})
        entries, longest = _beside(f"{row.entries:,}", printed.get("entries"), ","), printed.get("longest")
        table_rows.append([row.segmentation, entries, _beside(f"{row.longest}", longest)])
    title = "tokens that leave 99 % of the captions whole"
    return Table(title, ["segmentation", "entries", "tokens"], table_rows, [False, True, True], _note())


def _paper_lengths() -> list[dict[str, Any]]:
    """The paper's rows: segmentation, entries of the vocabulary, tokens of the longest caption."""
    named_rows = ((name.split(), row) for name, row in paper_table("subicap/lengths").items())
    return [{"segmentation": kind, "entries": int(size), "longest": row["longest"]} for (kind, size), row in named_rows]


def _note() -> str:
    return f"in parentheses: {paper_source('subicap/lengths')}"


def length_to_dict(rows: Sequence[Length]) -> dict[str, Any]:
    """The same as JSON values."""
    source = paper_source("subicap/lengths")
    return {"source": source, "rows": [asdict(row) for row in rows], "published": _paper_lengths()}


def segmentation_table(rows: Mapping[str, Segmented]) -> Table:
    """Tables A.2 and A.3: a row per segmentation."""
    metrics = list(next(iter(rows.values())).scores)
    sizes, scores = paper_table("subicap/sizes"), paper_table("subicap/scores")
    table_rows = []
    for segmentation_name, row in rows.items():
        paper_sizes, paper_scores = sizes.get(segmentation_name, {}), scores.get(segmentation_name, {})
        table_rows.append(
            [
                segmentation_name,
                _beside(f"{row.entries:,}", paper_sizes.get("entries"), ","),
                _beside(f"{row.longest}", paper_sizes.get("longest")),
                _beside(f"{row.parameters / 1e6:.2f}", paper_sizes.get("millions")),
                _beside(f"{100 * row.distinct:.1f}", paper_sizes.get("distinct")),
                f"{row.words:.1f}",
                *(
                    _beside(f"{100 * value:.1f}", paper_scores.get(metric), ".1f")
                    for metric, value in row.scores.items()
                ),
            ]
        )
    columns = ["segmentation", "entries", "tokens", "millions", "distinct %", "words", *metrics]
    note = f"scores x 100; {_note()}, on photographs"
    return Table("captions by segmentation", columns, table_rows, [False, *(True for _ in columns[1:])], note)


def _beside(value: str, paper: float | None, form: str = "") -> str:
    return value if paper is None else f"{value} ({paper:{form}})"


def segmentation_to_dict(rows: Mapping[str, Segmented]) -> dict[str, Any]:
    """The same as JSON values."""
    scores = paper_table("subicap/scores")
    published = {name: {**size, "scores": scores[name]} for name, size in paper_table("subicap/sizes").items()}
    return {
        "source": paper_source("subicap/sizes"),
        "rows": {name: asdict(row) for name, row in rows.items()},
        "published": published,
    }
