"""Tables as files: Parquet, CSV, TSV or JSON lines, by the file's ending; written whole or not at all.

Texts come back unchanged from every kind. In CSV and TSV a list stands as JSON.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from capmeter.core.csv_text import CsvWriter
from capmeter.core.errors import InputError
from capmeter.core.output_files import atomic_writer

KINDS = (".parquet", ".csv", ".tsv", ".jsonl")


def table_kind(path: Path) -> str:
    """The format that the file's name ends with (before .gz); one that is not in `KINDS` is an `InputError`."""
    kind = path.suffixes[-2] if path.suffix == ".gz" and len(path.suffixes) > 1 else path.suffix
    if kind not in KINDS:
        raise InputError(f"{path}: expected a name that ends in {', '.join(KINDS[:-1])} or {KINDS[-1]}")
    return kind


def write_table(tables: Any | Iterable[Any], path: Path) -> None:
    """Writes a table.

    Args:
        tables: a `pyarrow.Table`, or the parts of one, of the same columns, one after the other.
        path: the file.

    Raises:
        InputError: the ending is not one of `KINDS`, or the file cannot be written.
    """
    import pyarrow

    kind = table_kind(path)
    parts = [tables] if isinstance(tables, pyarrow.Table) else tables
    with atomic_writer(path) as file, ExitStack() as open_files:
        if kind == ".parquet":
            from pyarrow.parquet import ParquetWriter

            writer: Any = None
            for part in parts:
                writer = writer or open_files.enter_context(ParquetWriter(file, part.schema))
                writer.write_table(part)
        elif kind == ".jsonl":
            for part in parts:
                file.writelines(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in part.to_pylist())
        else:
            text_file = io.TextIOWrapper(file, "utf-8", newline="", write_through=True)
            open_files.callback(text_file.detach)
            rows = CsvWriter(text_file, "\t" if kind == ".tsv" else ",")
            for k, part in enumerate(parts):
                if k == 0:
                    rows.write(part.column_names)
                for row in part.to_pylist():
                    rows.write([json.dumps(cell) if isinstance(cell, list) else cell for cell in row.values()])
