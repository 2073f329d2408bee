"""One row per caption: id, image, system and every score, for data frames and spreadsheets."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from capmeter.captions.csvtext import CsvWriter
from capmeter.captions.files import atomic_writer
from capmeter.errors import InputError
from capmeter.metrics.scores import Results

KINDS = (".parquet", ".csv", ".tsv", ".jsonl")
_AT_ONCE = 1 << 17


def checked_kind(path: Path) -> str:
    """The format of the file's ending; an unknown ending is an `InputError`."""
    kind = path.suffixes[-2] if path.suffix == ".gz" and len(path.suffixes) > 1 else path.suffix
    if kind not in KINDS:
        raise InputError(f"{path}: expected a name that ends in {', '.join(KINDS)}")
    return kind


def write_per_caption(systems: Mapping[str, Results], path: Path, *, texts: bool = False) -> None:
    """Writes the rows in the format of the file's ending, whole or not at all.

    With `texts` each row has the caption and its references too (as JSON in CSV and TSV).
    """
    kind = checked_kind(path)
    if kind == ".parquet":
        import pyarrow
        from pyarrow.parquet import ParquetWriter

        with atomic_writer(path) as file, ExitStack() as open_files:
            writer: Any = None
            for columns in _blocks(systems, texts):
                table = pyarrow.table(columns)
                writer = writer or open_files.enter_context(ParquetWriter(file, table.schema))
                writer.write_table(table)
        return
    with atomic_writer(path) as file:
        if kind == ".jsonl":
            for row in _rows(systems, texts):
                file.write(json.dumps(row).encode() + b"\n")
            return
        text = io.TextIOWrapper(file, "utf-8", newline="", write_through=True)
        table = CsvWriter(text, "\t" if kind == ".tsv" else ",")
        for number, row in enumerate(_rows(systems, texts)):
            if number == 0:
                table.write(list(row))
            table.write([json.dumps(each) if isinstance(each, list) else each for each in row.values()])
        text.detach()


def _blocks(systems: Mapping[str, Results], texts: bool) -> Iterator[dict[str, Any]]:
    """The columns of some captions after the other, since Python's strings take much more than what is held."""
    for system, results in systems.items():
        for start in range(0, len(results.ids.names), _AT_ONCE):
            yield results.to_columns(system, texts=texts, rows=slice(start, start + _AT_ONCE))


def _rows(systems: Mapping[str, Results], texts: bool) -> Iterator[dict[str, Any]]:
    for columns in _blocks(systems, texts):
        values = [column.tolist() if hasattr(column, "tolist") else column for column in columns.values()]
        for row in zip(*values, strict=True):
            yield dict(zip(columns, row, strict=True))
