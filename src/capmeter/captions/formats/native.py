"""capmeter's own row: `{"id"?, "image_id", "candidate", "references": [...], "image"?, "system"?, "human"?, "split"?}`.

JSON lines, a JSON list, CSV, TSV and Parquet all hold such rows. These variants are accepted on reading: other names
for `candidate` and `references` (see `capmeter.captions.columns`; `reference` and `ground_truth` may be one text,
`reference_1`, `ref0` … are a column for each), and names that the user chooses; `references` as the JSON text of a
list; `captions: {system: text}` for the candidates of several systems. Read as references, a row with nothing but a
`caption` is one reference of its image.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from capmeter.captions.columns import FIELDS, Columns, nearest, number_of
from capmeter.captions.files import text_lines
from capmeter.captions.jsontext import decode_json
from capmeter.captions.rows import (
    NotCandidates,
    Row,
    Side,
    caption_text,
    described,
    human_ratings,
    image_key,
    optional_text,
    reference_list,
)
from capmeter.errors import InputError


def native_rows(fields: Mapping[Any, Any], place: str, side: Side, columns: Columns) -> list[Row]:
    """The rows that one object holds: one, or one for each system in `captions`."""
    if not isinstance(fields, Mapping):
        raise InputError(f"{place}: {described(fields)}, expected an object with image_id, candidate and references")
    layout = columns.layout_of(fields)
    if layout is not None:
        fields = layout.fields(fields, place)
    held: dict[str, Any] = {}
    candidates, references = [], []
    for name, value in fields.items():
        field = columns.field(name) if isinstance(name, str) else None
        if field == "candidate":
            candidates.append(name)
        elif field == "references":
            references.append(name)
        elif field is not None:
            held[field] = value
        elif name != "captions":
            columns.ignored.add(name if isinstance(name, str) else f"({type(name).__name__})")
    if held.get("image_id") is None:
        raise InputError(
            f"{place}: image_id is missing, expected the id of the image that the caption is of "
            f"(the fields are {nearest(fields) or 'none'}); --column image_id=NAME says which field it is"
        )
    row = Row(place, image_key(held["image_id"], place))
    row.references = _references(fields, references, place, columns)
    row.id = optional_text(held.get("id"), place, "id")
    row.image = optional_text(held.get("image"), place, "image")
    row.system = optional_text(held.get("system"), place, "system")
    row.split = optional_text(held.get("split"), place, "split")
    row.human = human_ratings(held.get("human"), place)
    if row.image is not None and row.image != row.image_id:
        row.aliases = (row.image,)
    row.one_of_many = layout is not None and layout.single
    return [_reference_row(row, fields)] if side == "references" else _candidate_rows(row, fields, candidates)


def _references(fields: Mapping[Any, Any], names: list[str], place: str, columns: Columns) -> tuple[str, ...] | None:
    """The references under these names: one list (or its JSON text), one text, or a column for each text."""
    names = [name for name in names if fields[name] is not None]
    if len(names) == 1 and number_of(names[0]) is None:
        return _reference_field(fields[names[0]], place, names[0], columns)
    if all(name in columns.chosen for name in names):
        texts = [_reference_field(fields[name], place, name, columns) for name in names]
        return tuple(text for several in texts for text in several) if names else None
    names.sort(key=lambda name: -1 if (number := number_of(name)) is None else number)
    if number_of(names[0]) is None:
        raise InputError(f"{place}: both {names[0]} and {names[1]} are given; keep one of the two")
    values = [fields[name] for name in names]
    return reference_list([value for value in values if not (isinstance(value, str) and not value)], place, "reference")


def _reference_field(value: Any, place: str, name: str, columns: Columns) -> tuple[str, ...]:
    if isinstance(value, str) and value.lstrip()[:1] == "[":
        try:
            value = decode_json(value, f"{place}, column {name}")
        except InputError as error:
            python = " (this looks like a Python list; write it with json.dumps)" if "'" in value else ""
            if name in FIELDS or python:
                raise InputError(f"{error}{python}") from None
    if isinstance(value, str) and (name not in FIELDS or name in columns.chosen):
        return (caption_text(value, place, name),)
    return reference_list(value, place, name)


def _candidate_rows(row: Row, fields: Mapping[Any, Any], names: list[str]) -> list[Row]:
    given = [*names, *(["captions"] if "captions" in fields else [])]
    if len(given) > 1:
        raise InputError(
            f"{row.place}: {' and '.join(given)} are all given, and any could be the candidate; keep one, or say which "
            f"it is with --column candidate={given[0]}"
        )
    if not given:
        if "candidate_a" in fields:
            why = "it holds pairs (candidate_a, candidate_b), as benchmarks of human judgment do: see `capmeter meta`"
        elif row.references is not None:
            why = (
                "it holds references only: name the file as references, and a file of candidates beside it "
                f"(the fields are {nearest(fields)})"
            )
        else:
            why = f"the fields are {nearest(fields)}; --column candidate=NAME says which one it is"
        raise NotCandidates(f"{row.place}: candidate is missing, expected a caption as text; {why}")
    if given[0] != "captions":
        row.candidate = caption_text(fields[given[0]], row.place, given[0])
        return [row]
    captions = fields["captions"]
    if not isinstance(captions, Mapping) or not captions:
        raise InputError(
            f'{row.place}: captions is {described(captions)}, expected {{"system": "caption", ...}}; a list of what '
            "people wrote is called references"
        )
    systems = {image_key(name, row.place, "the system's name"): text for name, text in captions.items()}
    return [
        Row(
            row.place,
            row.image_id,
            candidate=caption_text(text, row.place, f"captions[{system!a}]"),
            references=row.references,
            id=row.id if len(captions) == 1 else None,
            image=row.image,
            system=system,
            human=row.human,
            split=row.split,
        )
        for system, text in systems.items()
    ]


def _reference_row(row: Row, fields: Mapping[Any, Any]) -> Row:
    if row.references is None:
        if "caption" in fields and "candidate" not in fields:
            row.references = (caption_text(fields["caption"], row.place, "caption"),)
            row.one_of_many = True
        else:
            why = "it holds candidates only: are the two files swapped?" if "candidate" in fields else ""
            raise InputError(
                f"{row.place}: references is missing, expected a list of captions; {why or nearest(fields)}"
            )
    return row


def read_json_lines(path: Path, name: str, side: Side, columns: Columns) -> Iterator[Row]:
    """The rows of a file with one JSON object per line, one line in memory at a time."""
    for number, line in text_lines(path):
        if line.strip():
            fields = decode_json(line.rstrip("\r\n"), name, number)
            yield from native_rows(fields, f"{name}, line {number}", side, columns)


def read_list(items: Iterable[Any], name: str, side: Side, columns: Columns) -> Iterator[Row]:
    """The rows of a list of objects."""
    for number, item in enumerate(items):
        yield from native_rows(item, f"{name}[{number}]", side, columns)


def fields_of(row: Row) -> dict[str, Any]:
    """The row as an object, without the fields that it does not have."""
    held = {name: getattr(row, name) for name in FIELDS}
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in held.items() if value is not None
    }


def write_json_lines(rows: Iterable[Row], file: BinaryIO) -> None:
    """One object per line."""
    for row in rows:
        file.write(json.dumps(fields_of(row), ensure_ascii=False).encode() + b"\n")


def write_json(rows: Iterable[Row], file: BinaryIO) -> None:
    """A JSON list, one row a line."""
    separator = b"[\n"
    for row in rows:
        file.write(separator + json.dumps(fields_of(row), ensure_ascii=False).encode())
        separator = b",\n"
    file.write(b"\n]\n" if separator == b",\n" else b"[]\n")
