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
        value = self.fields.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and key in ("id", "image_id"):
            return str(value)
        if not isinstance(value, str):
            raise self.error_at(key, "text")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A field that must be a list of texts."""
        value = self.fields.get(key)
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self.error_at(key, "a list of texts")
        return tuple(value)

    def number(self, key: str) -> float:
        """A field that must be a number."""
        value = self.fields.get(key)
        if not is_finite(value):
            raise self.error_at(key, "a number")
        return float(value)

    def numbers(self, key: str) -> tuple[float, ...]:
        """A field that must be a number or a list of numbers."""
        value = self.fields.get(key)
        each: list[Any] = value if isinstance(value, list) else [value]
        if not all(isinstance(one, bool) or is_finite(one) for one in each):
            raise self.error_at(key, "a list of numbers")
        return tuple(float(one) for one in each)

    def flag(self, key: str, default: bool) -> bool:
        """A field that may be absent, or must be true or false."""
        value = self.fields.get(key, default)
        if not isinstance(value, bool):
            raise self.error_at(key, "true or false")
        return value

    def error_at(self, key: str, expected: str) -> InputError:
        """The error for a field with a wrong value."""
        if key not in self.fields:
            return InputError(
                f"{self.place}: there is no {key!r}; expected {expected} (fields: {', '.join(self.fields)})"
            )
        found = repr(self.fields[key])
        return InputError(f"{self.place}: {key!r} is {found[:60]}; expected {expected}")


def read_jsonl(path: Path) -> list[JudgmentRow]:
    """The rows of a JSON-lines file, plain or gzipped."""
    rows = []
    for number, line in text_lines(path):
        if not line.strip():
            continue
        place = f"{path}, line {number}"
        value = decode_json(line, str(path), number)
        if not isinstance(value, dict):
            raise InputError(f'{place}: expected an object such as {{"image_id": …}}, but got {type(value).__name__}')
        rows.append(JudgmentRow(value, place))
    if not rows:
        raise InputError(f"{path} has no rows")
    return rows


def rename_columns(rows: list[JudgmentRow], columns: Mapping[str, str], path: Path) -> list[JudgmentRow]:
    """The rows with the fields that these columns hold (column → field); several of `references` make one list."""
    absent = [name for name in columns if not any(name in row for row in rows)]
    if absent:
        raise InputError(f"{path} has no column {absent[0]!r}; its first row has {', '.join(rows[0].fields)}")
    if not columns:
        return rows
    found = []
    for row in rows:
        fields = {
            name: value for name, value in row.fields.items() if name not in columns and name not in columns.values()
        }
        texts: list[Any] = []
        for name, field in columns.items():
            value = row.fields.get(name)
            if field == "references":
                texts += value if isinstance(value, list) else [value] * (name in row)
                fields[field] = texts
            elif name in row:
                fields[field] = value
        found.append(JudgmentRow(fields, row.place))
    return found


def row_ids(rows: list[JudgmentRow]) -> list[str]:
    """Each row's own `id`; else its image's where that is unique; else `image#k` for the k-th row of the image."""
    images = [row.text("image_id") for row in rows]
    counts, places, ids = Counter(images), Counter[str](), []
    for row, image in zip(rows, images, strict=True):
        k, places[image] = places[image], places[image] + 1
        own = row.text("id") if "id" in row else image if counts[image] == 1 else f"{image}#{k}"
        ids.append(own)
    doubled = [id for id, count in Counter(ids).items() if count > 1]
    if doubled:
        raise InputError(f"duplicate id {doubled[0]!r} ({ids.count(doubled[0])} rows); scores are keyed by id")
    return ids
