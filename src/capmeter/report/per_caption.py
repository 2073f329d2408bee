"""One row per caption: id, image, system and every score, for data frames and spreadsheets."""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from capmeter.captions.source_rows import SourceRows, unify_columns
from capmeter.core.csv_text import CsvWriter
from capmeter.core.output_files import atomic_writer
from capmeter.evaluation.results import Results
from capmeter.report.row_files import checked_kind
from capmeter.report.source_columns import arrow_table, beside_source

KINDS = (".parquet", ".csv", ".tsv", ".jsonl")
_AT_ONCE = 1 << 17
Sources = Mapping[str, tuple[SourceRows, str | None]] | None


def write_per_caption(
    systems: Mapping[str, Results],
    path: Path,
    *,
    texts: bool = False,
    sources: Sources = None,
) -> None:
    """Writes the rows in the format of the file's ending, whole or not at all.

    Args:
        systems: the scores.
        path: the file.
        texts: whether each row has the caption and its references, too (as JSON in CSV and TSV).
        sources: of each system the rows of its file, and its name there (None: the only one): all of these rows are
            written with their columns, those without a score too.
    """
    kind = checked_kind(path, KINDS)
    unify_columns([source for source, _ in (sources or {}).values()])
    if kind == ".parquet":
        from pyarrow.parquet import ParquetWriter

        with atomic_writer(path) as file, ExitStack() as open_files:
            writer: Any = None
            for columns in _blocks(systems, texts, sources):
                table = arrow_table(columns, texts=texts)
                writer = writer or open_files.enter_context(ParquetWriter(file, table.schema))
                writer.write_table(table)
        return
    with atomic_writer(path) as file:
        if kind == ".jsonl":
            for row in _rows(systems, texts, sources):
                file.write(json.dumps(row).encode() + b"\n")
            return
        text_file = io.TextIOWrapper(file, "utf-8", newline="", write_through=True)
        table = CsvWriter(text_file, "\t" if kind == ".tsv" else ",")
        for row_index, row in enumerate(_rows(systems, texts, sources)):
            if row_index == 0:
                table.write(list(row))
            table.write([json.dumps(each) if isinstance(each, list) else each for each in row.values()])
        text_file.detach()


def _blocks(systems: Mapping[str, Results], texts: bool, sources: Sources) -> Iterator[dict[str, Any]]:
    """The columns of some captions after the other, since Python's strings take much more than what is held."""
    for system, results in systems.items():
        if sources:
            source, source_system = sources[system]
            columns = functools.partial(_columns_of, results, texts)
            for block in beside_source(results, source, columns, system=source_system):
                id_columns = {"id": block.pop("id"), "image_id": block.pop("image_id")}
                yield {**id_columns, "system": [system] * len(id_columns["id"]), **block}
            continue
        for block_start in range(0, len(results.ids.names), _AT_ONCE):
            yield results.to_columns(system, texts=texts, rows=slice(block_start, block_start + _AT_ONCE))


def _rows(systems: Mapping[str, Results], texts: bool, sources: Sources) -> Iterator[dict[str, Any]]:
    for columns in _blocks(systems, texts, sources):
        column_values = [column.tolist() if hasattr(column, "tolist") else column for column in columns.values()]
        for row_values in zip(*column_values, strict=True):
            yield dict(zip(columns, row_values, strict=True))


def _columns_of(results: Results, texts: bool, rows: slice) -> dict[str, Any]:
    return results.to_columns(texts=texts, rows=rows)
