"""Rows of plain values as a file: .csv, .tsv or .jsonl, by the file's ending."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from capmeter.core.csv_text import csv_text
from capmeter.core.errors import InputError
from capmeter.core.output_files import write_atomic

KINDS = (".csv", ".tsv", ".jsonl")


def checked_kind(path: Path, kinds: Sequence[str] = KINDS) -> str:
    """The format that the file's name ends with (before .gz); one that is not in `kinds` is an `InputError`."""
    kind = path.suffixes[-2] if path.suffix == ".gz" and len(path.suffixes) > 1 else path.suffix
    if kind not in kinds:
        raise InputError(f"{path}: expected a name that ends in {', '.join(kinds[:-1])} or {kinds[-1]}")
    return kind


def write_rows(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Writes rows of the same keys, whole or not at all; in CSV and TSV a list stands as JSON."""
    kind = checked_kind(path)
    if kind == ".jsonl":
        write_atomic(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
        return
    cell_rows = [
        {key: json.dumps(each) if isinstance(each, list) else each for key, each in row.items()} for row in rows
    ]
    write_atomic(path, csv_text(cell_rows, "\t" if kind == ".tsv" else ","))
