"""capmeter's own row: `{"id"?, "image_id", "candidate", "references": [...], "image"?, "system"?, "human"?, "split"?}`.

JSON lines, a JSON list, CSV, TSV and Parquet all hold such rows. Three freedoms are allowed on reading: `caption` for
`candidate`; `captions: {system: text}` for the candidates of several systems; `reference_1`, `reference_2` … for
`references` in tables. Read for references, a row with nothing but a `caption` is one reference of its image.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

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
    named,
    optional_text,
    reference_list,
)
from capmeter.errors import InputError

FIELDS = ("id", "image_id", "candidate", "references", "image", "system", "human", "split")
KNOWN = frozenset((*FIELDS, "caption", "captions"))
_NUMBERED = re.compile(r"references?_(\d+)")


def native_rows(fields: Mapping[str, Any], place: str, side: Side, ignored: set[str]) -> list[Row]:
    """The rows that one object holds: one, or one for each system in `captions`."""
    if not isinstance(fields, Mapping):
        raise InputError(f"{place}: {described(fields)}, expected an object with image_id, candidate and references")
    if fields.get("image_id") is None:
        raise InputError(
            f"{place}: image_id is missing, expected the id of the image that the caption is of "
            f"(the fields are {named(fields, 8) or 'none'})"
        )
    row = Row(place, image_key(fields["image_id"], place))
    given = fields.get("references")
    if given is not None:
        row.references = reference_list(given, place, "references")
    unknown = fields.keys() - KNOWN
    if unknown:
        numbered = sorted((name for name in unknown if _NUMBERED.fullmatch(name)), key=_number)
        if numbered:
            if given is not None:
                raise InputError(f"{place}: both references and {numbered[0]} are given; keep one of the two")
            values = [fields[name] for name in numbered]
            row.references = reference_list([value for value in values if value not in (None, "")], place, "reference")
            unknown = unknown - set(numbered)
        ignored |= unknown
    row.id = optional_text(fields.get("id"), place, "id")
    row.image = optional_text(fields.get("image"), place, "image")
    row.system = optional_text(fields.get("system"), place, "system")
    row.split = optional_text(fields.get("split"), place, "split")
    row.human = human_ratings(fields.get("human"), place)
    if row.image is not None and row.image != row.image_id:
        row.aliases = (row.image,)
    return [_reference_row(row, fields)] if side == "references" else _candidate_rows(row, fields)


def _candidate_rows(row: Row, fields: Mapping[str, Any]) -> list[Row]:
    given = [name for name in ("candidate", "caption", "captions") if name in fields]
    if len(given) > 1:
        raise InputError(f"{row.place}: {' and '.join(given)} are all given, and any could be the candidate; keep one")
    if not given:
        if "candidate_a" in fields:
            why = "it holds pairs (candidate_a, candidate_b), as benchmarks of human judgment do: see `capmeter meta`"
        elif row.references is not None:
            why = "it holds references only: name the file as references, and a file of candidates beside it"
        else:
            why = f"the fields are {named(fields, 8)}"
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
    return [
        Row(
            row.place,
            row.image_id,
            candidate=caption_text(text, row.place, f"captions[{system!a}]"),
            references=row.references,
            id=row.id if len(captions) == 1 else None,
            image=row.image,
            system=str(system),
            human=row.human,
            split=row.split,
        )
        for system, text in captions.items()
    ]


def _reference_row(row: Row, fields: Mapping[str, Any]) -> Row:
    if row.references is None:
        if "caption" in fields and "candidate" not in fields:
            row.references = (caption_text(fields["caption"], row.place, "caption"),)
            row.one_of_many = True
        else:
            why = "it holds candidates only: are the two files swapped?" if "candidate" in fields else ""
            raise InputError(
                f"{row.place}: references is missing, expected a list of captions; {why or named(fields, 8)}"
            )
    return row


def read_json_lines(path: Path, name: str, side: Side, ignored: set[str]) -> Iterator[Row]:
    """The rows of a file with one JSON object per line, one line in memory at a time."""
    for number, line in text_lines(path):
        if line.strip():
            fields = decode_json(line.rstrip("\r\n"), name, number)
            yield from native_rows(fields, f"{name}, line {number}", side, ignored)


def read_list(items: Iterable[Any], name: str, side: Side, ignored: set[str]) -> Iterator[Row]:
    """The rows of a list of objects."""
    for number, item in enumerate(items):
        yield from native_rows(item, f"{name}[{number}]", side, ignored)


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


def _number(name: str) -> int:
    match = _NUMBERED.fullmatch(name)
    return int(match[1]) if match else 0
