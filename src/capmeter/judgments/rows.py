"""Rows of a benchmark's file, with their place in it; every field is checked when it is read.

A file is JSON lines, a JSON list, CSV or Parquet, recognised by its content. Of Parquet only text, numbers and lists
are read, never pictures.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from capmeter.captions.containers.lines import DelimitedRows, JsonLines
from capmeter.captions.rows import MAX_NUMBER, is_finite
from capmeter.captions.sources import CaptionSource, open_bytes, read_text
from capmeter.core.errors import InputError
from capmeter.core.json_text import decode_json

_WINNERS = {"a": 1.0, "b": -1.0, "tie": 0.0}


@dataclass(frozen=True)
class JudgmentRow:
    """One row: its fields, its place in the file, and what the file calls a field (both for messages)."""

    fields: Mapping[str, Any]
    place: str
    file_names: Mapping[str, str] = field(default_factory=dict)

    def __contains__(self, key: str) -> bool:
        return key in self.fields

    def text(self, key: str) -> str:
        """A field that must be text (ids may be numbers)."""
        field_value = self.fields.get(key)
        if isinstance(field_value, int) and not isinstance(field_value, bool) and key in ("id", "image_id"):
            return str(field_value)
        if not isinstance(field_value, str):
            raise self.error_at(key, "text")
        return field_value

    def texts(self, key: str) -> tuple[str, ...]:
        """A field that must be a list of texts, which a cell of a table holds as JSON or as a Python literal."""
        field_value = self.fields.get(key)
        if isinstance(field_value, str) and field_value.startswith("["):
            with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
                field_value = ast.literal_eval(field_value)
        if not isinstance(field_value, list) or not all(isinstance(each, str) for each in field_value):
            raise self.error_at(key, "a list of texts")
        return tuple(field_value)

    def number(self, key: str) -> float:
        """A field that must be a number."""
        (number, *others) = self.numbers(key) or (None,)
        if number is None or others or isinstance(self.fields[key], bool | list):
            raise self.error_at(key, "a number")
        return number

    def numbers(self, key: str) -> tuple[float, ...]:
        """A field that must be a number, which may be the text of a cell, or a list of numbers."""
        field_value = self.fields.get(key)
        field_values: list[Any] = field_value if isinstance(field_value, list) else [field_value]
        if isinstance(field_value, str):
            with suppress(ValueError):
                field_values = [float(field_value)]
        if not all(isinstance(one, bool) or is_finite(one, MAX_NUMBER) for one in field_values):
            raise self.error_at(key, "a number" if isinstance(field_value, str) else "a list of numbers")
        return tuple(float(one) for one in field_values)

    def flag(self, key: str, default: bool) -> bool:
        """A field that may be absent, or must be true or false."""
        field_value = self.fields.get(key, default)
        if not isinstance(field_value, bool):
            raise self.error_at(key, "true or false")
        return field_value

    def preference(self, key: str) -> float:
        """A field that says which of two captions is better: positive for a, negative for b, 0 for a tie.

        It is "a", "b" or "tie"; votes, 1 for a and -1 for b, which are summed; or a degree of preference.
        """
        field_value = self.fields.get(key)
        if isinstance(field_value, str) and field_value in _WINNERS:
            return _WINNERS[field_value]
        votes = field_value if isinstance(field_value, list) else [field_value]
        if not all(is_finite(vote) for vote in votes):
            raise self.error_at(key, "a, b or tie (or votes, 1 for a and -1 for b, or a degree of preference)")
        return float(sum(votes))

    def labelled_texts(self, key: str, example: str) -> list[tuple[str, bool]]:
        """A field that must be a list of texts, each with true or false."""
        field_value = self.fields.get(key)
        if not isinstance(field_value, list):
            raise self.error_at(key, f"a list such as {example}")
        for labelled_text in field_value:
            match labelled_text:
                case [str(), bool()]:
                    continue
            raise self.error_at(key, f"a list such as {example}, but {labelled_text!r:.60} is in it")
        return [(text, label) for text, label in field_value]

    def groups(self) -> dict[str, str]:
        """The fields by which a protocol can group rows: texts and whole numbers."""
        return {name: str(value) for name, value in self.fields.items() if isinstance(value, str | int)}

    def error_at(self, key: str, expected: str) -> InputError:
        """The error for a field with a wrong value."""
        name = self.file_names.get(key, key)
        if key not in self.fields:
            return InputError(
                f"{self.place}: there is no {name!r}; expected {expected} (fields: {', '.join(self.fields)})"
            )
        found_value = repr(self.fields[key])
        return InputError(f"{self.place}: {name!r} is {found_value[:60]}; expected {expected}")


def read_records(path: Path) -> list[JudgmentRow]:
    """The records of a file, plain or gzipped.

    Raises:
        InputError: the file is damaged, not of records, or has none.
    """
    with open_bytes(path) as file:
        start = file.read(64).lstrip()
    if start.startswith(b"PAR1"):
        rows = _read_parquet(path)
    elif start[:1] == b"[":
        items = decode_json(read_text(path), str(path))
        rows = [_record(item, f"{path}, item {k}") for k, item in enumerate(items)]
    elif start[:1] == b"{" or not {".csv", ".tsv"} & set(path.suffixes[-2:]):
        rows = read_jsonl(path)
    else:
        table = DelimitedRows(CaptionSource.resolve(path), "tsv" if ".tsv" in path.suffixes[-2:] else "csv")
        rows = [JudgmentRow(cells, place) for place, cells in table.records()]
    if not rows:
        raise InputError(f"{path} has no rows")
    return rows


def read_jsonl(path: Path) -> list[JudgmentRow]:
    """The rows of a JSON-lines file, plain or gzipped."""
    return [_record(value, place) for place, value in JsonLines(CaptionSource.resolve(path)).records()]


def _record(value: Any, place: str) -> JudgmentRow:
    if not isinstance(value, dict):
        raise InputError(f'{place}: expected an object such as {{"image_id": …}}, but got {type(value).__name__}')
    return JudgmentRow(value, place)


def _read_parquet(path: Path) -> list[JudgmentRow]:
    import pyarrow
    from pyarrow import parquet

    types = pyarrow.types
    try:
        parquet_file = parquet.ParquetFile(path)
        column_names = [
            column.name
            for column in parquet_file.schema_arrow
            if not (types.is_binary(column.type) or types.is_large_binary(column.type) or types.is_struct(column.type))
        ]
        records = parquet_file.read(columns=column_names).to_pylist()
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{path}: not a whole Parquet file: {error}; copy it again") from None
    return [JudgmentRow(record, f"{path}, row {row_number}") for row_number, record in enumerate(records)]


def rename_columns(rows: list[JudgmentRow], columns: Mapping[str, str], path: Path) -> list[JudgmentRow]:
    """The rows with the fields that these columns hold (column → field); several of `references` make one list.

    Args:
        rows: of the file.
        columns: column → field.
        path: for messages.
    """
    absent_columns = [name for name in columns if not any(name in row for row in rows)]
    if absent_columns:
        raise InputError(f"{path} has no column {absent_columns[0]!r}; its first row has {', '.join(rows[0].fields)}")
    if not columns:
        return rows
    renamed_rows = []
    for row in rows:
        fields = {
            name: value for name, value in row.fields.items() if name not in columns and name not in columns.values()
        }
        reference_texts: list[Any] = []
        for name, field_name in columns.items():
            value = row.fields.get(name)
            if field_name == "references":
                reference_texts += value if isinstance(value, list) else [value] * (name in row)
                fields[field_name] = reference_texts
            elif name in row:
                fields[field_name] = value
        renamed_rows.append(JudgmentRow(fields, row.place))
    return renamed_rows


def row_ids(rows: list[JudgmentRow]) -> list[str]:
    """Each row's own `id`; else its image's where that is unique; else `image#k` for the k-th row of the image."""
    image_ids = [row.text("image_id") for row in rows]
    image_counts, seen_counts, ids = Counter(image_ids), Counter[str](), []
    for row, image_id in zip(rows, image_ids, strict=True):
        k, seen_counts[image_id] = seen_counts[image_id], seen_counts[image_id] + 1
        row_id = row.text("id") if "id" in row else image_id if image_counts[image_id] == 1 else f"{image_id}#{k}"
        ids.append(row_id)
    duplicates = [id for id, count in Counter(ids).items() if count > 1]
    if duplicates:
        raise InputError(f"duplicate id {duplicates[0]!r} ({ids.count(duplicates[0])} rows); scores are keyed by id")
    return ids
