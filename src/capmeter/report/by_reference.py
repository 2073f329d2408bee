"""Scores by single reference, as a table and as a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from capmeter.core.table_files import write_table
from capmeter.meta.by_reference import ReferenceScores
from capmeter.report.metric_names import MetricName
from capmeter.report.tables import Table


def reference_table(scores: Sequence[ReferenceScores], digits: int = 4) -> Table:
    """For each caption and metric the score against all references, the spread, then one row per reference."""
    table_rows: list[list[Any]] = []
    for caption_scores in scores:
        table_rows.append(
            [
                caption_scores.id,
                MetricName(caption_scores.metric),
                f"{caption_scores.score:.{digits}f}",
                f"{caption_scores.spread:.{digits}f}",
                "",
            ]
        )
        table_rows += [
            ["", "", f"{reference_score:.{digits}f}", "", reference]
            for reference_score, reference in zip(caption_scores.values, caption_scores.references, strict=True)
        ]
    column_names = ["id", "metric", "score", "spread", "against this reference alone"]
    note = "spread: the largest value against a single reference minus the smallest"
    return Table("scores by reference", column_names, table_rows, [False, False, True, True, False], note)


def write_by_reference(systems: Mapping[str, Sequence[ReferenceScores]], path: Path) -> None:
    """One row per caption, metric and reference, with the score against all and the spread; whole or not at all."""
    import pyarrow

    table_rows = [
        {
            "system": system,
            "id": caption_scores.id,
            "metric": caption_scores.metric,
            "score": caption_scores.score,
            "spread": caption_scores.spread,
            "reference": reference,
            "value": reference_score,
        }
        for system, scores in systems.items()
        for caption_scores in scores
        for reference, reference_score in zip(caption_scores.references, caption_scores.values, strict=True)
    ]
    write_table(pyarrow.Table.from_pylist(table_rows), path)
