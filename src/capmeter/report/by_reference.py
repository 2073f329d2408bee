"""Scores by single reference, as a table and as a file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from capmeter.captions.files import write_atomic
from capmeter.errors import InputError
from capmeter.meta.by_reference import ByReference
from capmeter.report.names import MetricName
from capmeter.report.tables import Table

KINDS = (".csv", ".tsv", ".jsonl")


def reference_table(found: Sequence[ByReference], digits: int = 4) -> Table:
    """For each caption and metric the score against all references, the spread, then one row per reference."""
    rows: list[list[Any]] = []
    for each in found:
        rows.append([each.id, MetricName(each.metric), f"{each.score:.{digits}f}", f"{each.spread:.{digits}f}", ""])
        rows += [
            ["", "", f"{value:.{digits}f}", "", reference]
            for value, reference in zip(each.values, each.references, strict=True)
        ]
    heads = ["id", "metric", "score", "spread", "against this reference alone"]
    note = "spread: the largest value against a single reference minus the smallest"
    return Table("scores by reference", heads, rows, [False, False, True, True, False], note)


def checked_kind(path: Path) -> str:
    """The format that the file's name ends with."""
    if path.suffix not in KINDS:
        raise InputError(f"{path}: expected a name that ends in {', '.join(KINDS)}")
    return path.suffix


def write_by_reference(systems: Mapping[str, Sequence[ByReference]], path: Path) -> None:
    """One row per caption, metric and reference, with the score against all and the spread; whole or not at all."""
    kind = checked_kind(path)
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
        for system, found in systems.items()
        for each in found
        for reference, value in zip(each.references, each.values, strict=True)
    ]
    if kind == ".jsonl":
        write_atomic(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
        return
    text = io.StringIO()
    writer = csv.DictWriter(
        text, list(rows[0]), delimiter="\t" if kind == ".tsv" else ",", quoting=csv.QUOTE_ALL, lineterminator="\n"
    )
    writer.writeheader()
    writer.writerows(rows)
    write_atomic(path, text.getvalue())
