"""capmeter's own row: `{"id"?, "image_id", "candidate", "references": [...], "image"?, "system"?, "human"?, "split"?}`.

JSON lines, a JSON list, CSV, TSV and Parquet all hold such rows. These variants are accepted on reading: other names
for `candidate` and `references` (see `capmeter.captions.columns`; `reference` and `ground_truth` may be one text,
`reference_1`, `ref0` … are a column for each), and names that the user chooses; `references` as the JSON text of a
list; `captions: {system: text}` for the candidates of several systems. Read as references, a row with nothing but a
`caption` is one reference of its image.

Events in time (see `capmeter.captions.events`): `{"image_id", "timestamps": [[start, end], ...], "sentences": [...]}`,
whose `references` may be such objects too, or a row for each event with `start` and `end` in seconds beside its
caption (and, in references, `annotator`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, BinaryIO

from capmeter.captions.columns import FIELDS, IN_PYTHON, TIMES, Columns, close_name, reference_number, suggest_names
from capmeter.captions.documents import is_row, wrong_form
from capmeter.captions.event_rows import read_events
from capmeter.captions.events import Events
from capmeter.captions.rows import (
    CaptionRow,
    NotCandidates,
    Side,
    candidate_text,
    caption_text,
    human_ratings,
    image_key,
    optional_text,
    reference_list,
)
from capmeter.captions.sources import CaptionSource
from capmeter.core.errors import InputError
from capmeter.core.json_text import decode_json
from capmeter.core.messages import describe

_NAMES = ("id", "image", "system", "split")
EVENT_LISTS = ("timestamps", "sentences")
PYTHON_LIST = " (this looks like a Python list; write it with json.dumps)"


def native_rows(
    fields: Mapping[Any, Any], location: str, side: Side, columns: Columns, number: int
) -> list[CaptionRow]:
    """The rows that one object, the one with this number, holds: one, or one for each system in `captions`."""
    caption_rows = _rows_of(fields, location, side, columns, number)
    return [columns.carry(row, fields, number) for row in caption_rows] if columns.keep is not None else caption_rows


def _rows_of(fields: Mapping[Any, Any], location: str, side: Side, columns: Columns, number: int) -> list[CaptionRow]:
    if type(fields) is not dict and not isinstance(fields, Mapping):
        raise InputError(f"{location}: {describe(fields)}, expected an object with image_id, candidate and references")
    row_layout = columns.detect_layout(fields)
    if row_layout is not None:
        fields = row_layout.fields(fields, location)
    field_values, candidate_names, reference_names = _sort_fields(fields, location, columns)
    caption_row = CaptionRow(
        location, _image_id(field_values, fields, bool(candidate_names and reference_names), location, columns, number)
    )
    if "timestamps" in fields or "box" in field_values or ("start" in field_values and "end" in field_values):
        fields = _with_events(caption_row, fields, field_values, candidate_names)
    caption_row.references = _references(fields, reference_names, location, columns) if reference_names else None
    for field_name, field_value in field_values.items():
        if field_name in _NAMES:
            setattr(caption_row, field_name, optional_text(field_value, location, field_name))
    caption_row.human = human_ratings(field_values.get("human"), location)
    if caption_row.image is not None and caption_row.image != caption_row.image_id:
        caption_row.aliases = (caption_row.image,)
    if side == "candidates":
        return _candidate_rows(caption_row, fields, candidate_names, columns)
    one_text = (
        len(reference_names) == 1
        and isinstance(fields[reference_names[0]], str)
        and len(caption_row.references or ()) == 1
    )
    caption_row.one_of_many = (row_layout is not None and row_layout.single) or (one_text and not candidate_names)
    return [_reference_row(caption_row, fields, candidate_names, columns)]


def _sort_fields(
    fields: Mapping[Any, Any], location: str, columns: Columns
) -> tuple[dict[str, Any], list[str], list[str]]:
    """The values of fields that occur once, and the names of the candidates and of the references."""
    field_values: dict[str, Any] = {}
    column_names: dict[str, str] = {}
    candidate_names, reference_names = [], []
    for name, field_value in fields.items():
        field = columns.field(name) if isinstance(name, str) else None
        if field is None and isinstance(name, str) and name == "captions":
            # by system, or a list of human captions
            field = "candidate" if isinstance(field_value, Mapping | str) or field_value is None else "references"
        if field == "candidate":
            candidate_names.append(name)
        elif field == "references":
            reference_names.append(name)
        elif field is None and not (isinstance(name, str) and name in EVENT_LISTS and "timestamps" in fields):
            columns.ignored.add(name if isinstance(name, str) else f"({type(name).__name__})")
        elif field is not None and column_names.setdefault(field, name) != name:
            raise InputError(
                f"{location}: both {column_names[field]} and {name} are given for {field}; keep one of the two"
            )
        elif field is not None:
            field_values[field] = field_value
    return field_values, candidate_names, reference_names


def _image_id(
    values: dict[str, Any], fields: Mapping[Any, Any], is_whole: bool, location: str, columns: Columns, row_number: int
) -> str:
    """The row's image: `image_id`, else its picture or id; rows with a candidate and references may be numbered."""
    if columns.image_field is None:
        columns.image_field = _image_field(values, fields, is_whole, columns)
    name = columns.image_field
    if name == "" and "image_id" not in values:
        return str(row_number)
    if name in ("image", "id") and values.get("image_id") is not None:
        raise InputError(
            f"{location}: image_id is given, but not in the first row, where {name} names the image; give image_id in "
            "every row or in none"
        )
    if name and values.get(name) is not None:
        return image_key(values.pop("id") if name == "id" else values[name], location, name)
    raise InputError(
        f"{location}: {name or 'image_id'} is missing{' in the first row' * (name == '')}, expected the id of the "
        f"image that the caption is of (the fields are {suggest_names(fields) or 'none'}); --column "
        "image_id=NAME says which field it is; rows with a caption and its references need none: --column "
        f"candidate=NAME --column references=NAME {IN_PYTHON}"
    )


def _image_field(field_values: dict[str, Any], fields: Mapping[Any, Any], is_whole: bool, columns: Columns) -> str:
    """The field that names the image in rows like this one; "" if they are numbered."""
    for name in ("image_id", "image", "id"):
        if name in field_values:
            if name != "image_id" and name in fields:
                columns.note("images_by", name)
            return name
    if not is_whole or not columns.numbered or any(close_name(name) == "image_id" for name in islice(fields, 100)):
        return "image_id"
    columns.note("rows_without_image", "each row is an image of its own; --column image_id=NAME names their column")
    return ""


def _with_events(
    row: CaptionRow, fields: Mapping[Any, Any], field_values: Mapping[str, Any], candidates: list[str]
) -> dict[Any, Any]:
    """Reads the row's events; returns its fields with paragraphs in place of references that are events."""
    if "timestamps" in fields:
        row.events = read_events(fields["timestamps"], fields.get("sentences"), row.location)
    else:
        caption = next((fields[field_name] for field_name in (*candidates, "caption") if field_name in fields), None)
        box = field_values.get("box")
        if box is not None:
            event_times = [decode_cell(box, row.location, "box") if isinstance(box, str) else box]
        else:
            event_times = [[_seconds(field_values[field_name], row.location, field_name) for field_name in TIMES]]
        row.events, row.single_event = read_events(event_times, [caption], row.location), True
        row.annotator = optional_text(field_values.get("annotator"), row.location, "annotator")
    references = fields.get("references")
    if isinstance(references, Sequence) and references and isinstance(references[0], Mapping):
        locations = (f"{row.location}, references[{reference_index}]" for reference_index in range(len(references)))
        row.reference_events = tuple(
            read_events(reference_entry.get("timestamps"), reference_entry.get("sentences"), event_location)
            for reference_entry, event_location in zip(references, locations, strict=True)
        )
        return {**fields, "references": [events.paragraph for events in row.reference_events]}
    return dict(fields)


def _seconds(time_value: Any, location: str, field_name: str) -> Any:
    """A time in seconds, which tables hold as text."""
    if not isinstance(time_value, str):
        return time_value
    try:
        return float(time_value)
    except ValueError:
        raise InputError(f"{location}: {field_name} is {describe(time_value)}, expected seconds") from None


def _references(fields: Mapping[Any, Any], names: list[str], location: str, columns: Columns) -> tuple[str, ...] | None:
    """The references under these names: one list (or its JSON text), one text, or a column for each text."""
    names = [column_name for column_name in names if fields[column_name] is not None]
    if not names:
        return None
    if len(names) == 1 and reference_number(names[0]) is None:
        return _reference_field(fields[names[0]], location, names[0])
    if all(column_name in columns.mapping for column_name in names):
        lists = [_reference_field(fields[column_name], location, column_name) for column_name in names]
        return tuple(reference_text for reference_texts in lists for reference_text in reference_texts)
    names.sort(key=lambda column_name: -1 if (name_number := reference_number(column_name)) is None else name_number)
    if reference_number(names[0]) is None:
        raise InputError(f"{location}: both {names[0]} and {names[1]} are given; keep one of the two")
    reference_values = [fields[column_name] for column_name in names]
    reference_texts = [value for value in reference_values if not (isinstance(value, str) and not value)]
    return reference_list(reference_texts, location, "reference")


def _reference_field(field_value: Any, location: str, column_name: str) -> tuple[str, ...]:
    if isinstance(field_value, str) and field_value.lstrip()[:1] == "[":
        try:
            field_value = decode_cell(field_value, location, column_name)
        except InputError as error:
            if column_name in FIELDS or PYTHON_LIST in str(error):
                raise
    return reference_list(field_value, location, column_name)


def decode_cell(text: str, location: str, column: str) -> Any:
    """The value of a cell of JSON."""
    try:
        return decode_json(text, f"{location}, column {column}")
    except InputError as error:
        hint = PYTHON_LIST if "'" in text else ""
        raise InputError(f"{error}{hint}") from None


def _candidate_rows(row: CaptionRow, fields: Mapping[Any, Any], names: list[str], columns: Columns) -> list[CaptionRow]:
    location = row.location
    if row.events is not None and (len(names) > 1 or any(isinstance(fields[name], Mapping) for name in names)):
        raise InputError(
            f"{location}: captions of several systems beside one list of events; give each system a row with "
            "timestamps and sentences of its own, and its name as system"
        )
    if len(names) > 1 and all(name in columns.mapping for name in names):
        return [
            replace(row, candidate=candidate_text(fields[name], location, name), id=None, system=name) for name in names
        ]
    if len(names) > 1:
        raise InputError(
            f"{location}: {' and '.join(names)} are all given, and any could be the candidate; keep one, or say which "
            f"it is with --column candidate={names[0]}"
        )
    if not names and row.events is not None:
        row.candidate = row.events.paragraph
        return [row]
    if not names:
        if "candidate_a" in fields:
            reason = (
                "it holds pairs (candidate_a, candidate_b), as benchmarks of human judgment do: see `capmeter meta`"
            )
        elif row.references is not None:
            has_unknown = any(isinstance(name, str) and columns.field(name) is None for name in fields)
            reason = "it holds references only: name the file as references, and a file of candidates with it"
            reason += f", or say which field is the candidate: --column candidate=NAME {IN_PYTHON}" * has_unknown
            reason += f" (the fields are {suggest_names(fields)})"
        else:
            reason = f"the fields are {suggest_names(fields) or 'none'}; --column candidate=NAME {IN_PYTHON} says which"
        raise NotCandidates(f"{location}: candidate is missing, expected a caption as text; {reason}")
    if names[0] != "captions" or isinstance(fields["captions"], str):
        row.candidate = candidate_text(fields[names[0]], location, names[0])
        return [row]
    captions = fields["captions"]
    if not isinstance(captions, Mapping) or not captions:
        raise InputError(
            f'{location}: captions is {describe(captions)}, expected {{"system": "caption", ...}}; a list of human '
            "captions is called references"
        )
    system_texts = {image_key(name, location, "the system's name"): text for name, text in captions.items()}
    if len(system_texts) < len(captions):
        raise InputError(f"{location}: captions names a system twice, as number and as text; name each system once")
    return [
        CaptionRow(
            location,
            row.image_id,
            caption_text(text, location, f"captions[{system!a}]"),
            row.references,
            id=row.id if len(captions) == 1 else None,
            image=row.image,
            system=system,
            human=row.human,
            split=row.split,
        )
        for system, text in system_texts.items()
    ]


def _reference_row(row: CaptionRow, fields: Mapping[Any, Any], candidates: list[str], columns: Columns) -> CaptionRow:
    """The row read as references: its caption is one of them if it has no others."""
    if row.references is None and row.events is not None:
        row.references, row.reference_events, row.one_of_many = (row.events.paragraph,), (row.events,), True
    if row.references is not None:
        return row
    caption_field = candidates[0] if len(candidates) == 1 else ""
    if caption_field and (caption_field.casefold() == "caption" or caption_field in columns.mapping):
        row.references = (candidate_text(fields[caption_field], row.location, caption_field),)
        row.one_of_many = True
        return row
    if candidates:
        raise InputError(
            f"{row.location}: references are missing: it holds candidates only: are the two files swapped? (the fields "
            f"are {suggest_names(fields)})"
        )
    raise InputError(
        f"{row.location}: neither a candidate (caption) nor references; the fields are {suggest_names(fields)}: "
        f"--column candidate=NAME and --column references=NAME {IN_PYTHON} say which is which"
    )


def read_json_lines(source: CaptionSource, side: Side, columns: Columns) -> Iterator[CaptionRow]:
    """The rows of a file with one JSON object per line, one line in memory at a time."""
    row_number = 0
    for line_number, line in source.lines():
        if line.strip():
            fields = decode_json(line.rstrip("\r\n"), source.name, line_number)
            yield from native_rows(fields, f"{source.name}, line {line_number}", side, columns, row_number)
            row_number += 1


def read_document(document: Any, name: str, side: Side, columns: Columns) -> Iterator[CaptionRow]:
    """The rows of a list of objects, or of one object."""
    items = [document] if is_row(document) else document
    if isinstance(items, Mapping | str) or not isinstance(items, Sequence):
        raise wrong_form(items, name, "json")
    for item_number, item in enumerate(items):
        yield from native_rows(item, f"{name}[{item_number}]", side, columns, item_number)


def row_fields(row: CaptionRow) -> dict[str, Any]:
    """The row as an object, without the fields that it does not have."""
    field_values = {field_name: getattr(row, field_name) for field_name in FIELDS}
    return {
        field_name: list(field_value) if isinstance(field_value, tuple) else field_value
        for field_name, field_value in field_values.items()
        if field_value is not None
    }


def _json_fields(caption_row: CaptionRow) -> dict[str, Any]:
    """The fields of a row, with its events and those of its references in place of the paragraphs."""
    fields = row_fields(caption_row)
    if caption_row.events is None:
        return fields
    if caption_row.candidate is None or caption_row.reference_events:
        fields.pop("references", None)
    fields.pop("candidate", None)
    fields |= _event_lists(caption_row.events)
    if caption_row.candidate is not None and caption_row.reference_events:
        fields["references"] = [_event_lists(event_list) for event_list in caption_row.reference_events]
    return fields


def _event_lists(events: Events) -> dict[str, Any]:
    return {"timestamps": [list(event_time) for event_time in events.times], "sentences": list(events.sentences)}


def write_json_lines(rows: Iterable[CaptionRow], file: BinaryIO) -> None:
    """One object per line."""
    for caption_row in rows:
        file.write(json.dumps(_json_fields(caption_row), ensure_ascii=False).encode() + b"\n")


def write_json(rows: Iterable[CaptionRow], file: BinaryIO) -> None:
    """A JSON list, one row a line."""
    separator = b"[\n"
    for caption_row in rows:
        file.write(separator + json.dumps(_json_fields(caption_row), ensure_ascii=False).encode())
        separator = b",\n"
    file.write(b"\n]\n" if separator == b",\n" else b"[]\n")
