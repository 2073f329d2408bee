"""Rows of a benchmark's file, with their place in it; every field is checked when it is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capmeter.captions.rows import is_finite
from capmeter.captions.sources import text_lines
from capmeter.core.errors import InputError
from capmeter.core.json_text import decode_json


@dataclass(frozen=True)
class JudgmentRow:
    """One row: its fields, and its place in the file (for messages)."""

    fields: Mapping[str, Any]
    place: str

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
        """A field that must be a list of texts."""
        field_value = self.fields.get(key)
        if not isinstance(field_value, list) or not all(isinstance(each, str) for each in field_value):
            raise self.error_at(key, "a list of texts")
        return tuple(field_value)

    def number(self, key: str) -> float:
        """A field that must be a number."""
        field_value = self.fields.get(key)
        if not is_finite(field_value):
            raise self.error_at(key, "a number")
        return float(field_value)

    def numbers(self, key: str) -> tuple[float, ...]:
        """A field that must be a number or a list of numbers."""
        field_value = self.fields.get(key)
        field_values: list[Any] = field_value if isinstance(field_value, list) else [field_value]
        if not all(isinstance(one, bool) or is_finite(one) for one in field_values):
            raise self.error_at(key, "a list of numbers")
        return tuple(float(one) for one in field_values)

    def flag(self, key: str, default: bool) -> bool:
        """A field that may be absent, or must be true or false."""
        field_value = self.fields.get(key, default)
        if not isinstance(field_value, bool):
            raise self.error_at(key, "true or false")
        return field_value

    def error_at(self, key: str, expected: str) -> InputError:
        """The error for a field with a wrong value."""
        if key not in self.fields:
            return InputError(
                f"{self.place}: there is no {key!r}; expected {expected} (fields: {', '.join(self.fields)})"
            )
        found_value = repr(self.fields[key])
        return InputError(f"{self.place}: {key!r} is {found_value[:60]}; expected {expected}")


def read_jsonl(path: Path) -> list[JudgmentRow]:
    """The rows of a JSON-lines file, plain or gzipped."""
    rows = []
    for line_number, line in text_lines(path):
        if not line.strip():
            continue
        place = f"{path}, line {line_number}"
        value = decode_json(line, str(path), line_number)
        if not isinstance(value, dict):
            raise InputError(f'{place}: expected an object such as {{"image_id": …}}, but got {type(value).__name__}')
        rows.append(JudgmentRow(value, place))
    if not rows:
        raise InputError(f"{path} has no rows")
    return rows


def rename_columns(rows: list[JudgmentRow], columns: Mapping[str, str], path: Path) -> list[JudgmentRow]:
    """The rows with the fields that these columns hold (column → field); several of `references` make one list."""
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
