"""Rows of distributed files as records: JSON lists, JSON lines, CSV and Parquet, recognised by their content.

Of Parquet only text, numbers and lists are read, never pictures.
"""

from __future__ import annotations

import csv
from collections.abc import Collection
from itertools import islice
from pathlib import Path
from typing import Any

from capmeter.captions.formats.parquet import is_parquet
from capmeter.captions.sources import open_bytes, read_text
from capmeter.core.csv_text import csv_lines
from capmeter.core.errors import InputError
from capmeter.core.json_text import decode_json
from capmeter.judgments.rows import JudgmentRow, read_jsonl


def read_records(path: Path, fields: Collection[str]) -> list[JudgmentRow]:
    """The records of a file, with those of these fields that it has.

    Raises:
        InputError: the file is damaged, not of records, or has none.
    """
    rows = [JudgmentRow({key: row.fields[key] for key in fields if key in row}, row.place) for row in _records(path)]
    if not rows:
        raise InputError(f"{path} has no rows")
    return rows


def has_fields(path: Path, fields: Collection[str]) -> bool:
    """Whether the first record of a file has all of these fields."""
    if not path.is_file():
        return False
    if _is_parquet(path):
        return set(fields) <= set(_open_parquet(path).schema_arrow.names)
    return any(set(fields) <= set(row.fields) for row in islice(_records(path), 1))


def _records(path: Path) -> list[JudgmentRow]:
    if _is_parquet(path):
        return _read_parquet(path)
    file_text = read_text(path)
    first_character = file_text.lstrip()[:1]
    if first_character == "[":
        return _read_list(decode_json(file_text, str(path)), path)
    if first_character == "{":
        return read_jsonl(path)
    csv_reader = csv.DictReader(csv_lines(file_text))
    try:
        return [JudgmentRow(dict(entry), f"{path}, row {row_number}") for row_number, entry in enumerate(csv_reader, 2)]
    except csv.Error as error:
        raise InputError(f"{path}: not a table ({error}); expected JSON, CSV or Parquet") from None


def _read_list(json_items: Any, path: Path) -> list[JudgmentRow]:
    rows = []
    for item_number, item in enumerate(json_items):
        if not isinstance(item, dict):
            raise InputError(f"{path}, item {item_number}: expected an object, but got {type(item).__name__}")
        rows.append(JudgmentRow(item, f"{path}, item {item_number}"))
    return rows


def _is_parquet(path: Path) -> bool:
    with open_bytes(path) as file:
        return is_parquet(file.read(4))


def _open_parquet(path: Path) -> Any:
    import pyarrow
    from pyarrow import parquet

    try:
        return parquet.ParquetFile(path)
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{path}: not a whole Parquet file: {error}; copy it again") from None


def _read_parquet(path: Path) -> list[JudgmentRow]:
    import pyarrow

    parquet_file = _open_parquet(path)
    column_names = [
        field.name
        for field in parquet_file.schema_arrow
        if not (pyarrow.types.is_binary(field.type) or pyarrow.types.is_large_binary(field.type))
        and not pyarrow.types.is_struct(field.type)
    ]
    try:
        records = parquet_file.read(columns=column_names).to_pylist()
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{path}: not a whole Parquet file: {error}; copy it again") from None
    return [JudgmentRow(record, f"{path}, row {row_number}") for row_number, record in enumerate(records)]
