"""Scores by single reference, as a table and as a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from capmeter.meta.by_reference import ReferenceScores
from capmeter.report.metric_names import MetricName
from capmeter.report.row_files import write_rows
from capmeter.report.tables import Table


def reference_table(scores: Sequence[ReferenceScores], digits: int = 4) -> Table:
    """For each caption and metric the score against all references, the spread, then one row per reference."""
    rows: list[list[Any]] = []
    for each in scores:
        rows.append([each.id, MetricName(each.metric), f"{each.score:.{digits}f}", f"{each.spread:.{digits}f}", ""])
        rows += [
            ["", "", f"{value:.{digits}f}", "", reference]
            for value, reference in zip(each.values, each.references, strict=True)
        ]
    heads = ["id", "metric", "score", "spread", "against this reference alone"]
    note = "spread: the largest value against a single reference minus the smallest"
    return Table("scores by reference", heads, rows, [False, False, True, True, False], note)


def write_by_reference(systems: Mapping[str, Sequence[ReferenceScores]], path: Path) -> None:
    """One row per caption, metric and reference, with the score against all and the spread; whole or not at all."""
    rows = [
        {
            "system": system,
            "id": each.id,
            "metric": each.metric,
            "score": each.score,
            "spread": each.spread,
            "reference": reference,
            "value": value,
        }
        for system, scores in systems.items()
        for each in scores
        for reference, value in zip(each.references, each.values, strict=True)
    ]
    write_rows(rows, path)
