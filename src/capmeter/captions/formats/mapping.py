"""Captions keyed by image: pycocoevalcap's `{id: [caption, ...]}` and CLIPScore's `{image: caption}`.

References are `{id: [reference, ...]}` in both. Captions may also be COCO's objects, `{id: [{"caption": text}]}`, as
pycocoevalcap has them before tokenisation.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO

from capmeter.captions.columns import Columns, KeyedFields, suggest_names
from capmeter.captions.documents import wrong_form
from capmeter.captions.formats.native import native_rows
from capmeter.captions.rows import CaptionRow, NotCandidates, Side, caption_text, image_key, reference_list
from capmeter.core.errors import InputError
from capmeter.core.messages import shorten


def read(document: Any, name: str, side: Side, columns: Columns) -> Iterator[CaptionRow]:
    """One row per candidate, or one row of references per image."""
    if not isinstance(document, Mapping):
        raise wrong_form(document, name, "pycocoevalcap or clipscore")
    image_ids: set[str] = set()
    for entry_number, (entry_key, entry_value) in enumerate(document.items()):
        image_id = image_key(entry_key, name, "the key")
        location = f"{name}, key {image_id!a}"
        if image_id in image_ids:
            raise InputError(f"{location}: duplicate key, as a number and as text; keep one")
        image_ids.add(image_id)
        if isinstance(entry_value, Mapping):
            _refuse_other_id(entry_value, image_id, location, columns)
            _refuse_nested(entry_value, location, columns)
            yield from native_rows(KeyedFields(entry_value, image_id), location, side, columns, entry_number)
            continue
        if isinstance(entry_value, list | tuple) and entry_value and isinstance(entry_value[0], Mapping):
            entry_value = [
                _caption_of(caption_entry, image_id, f"{location}[{caption_index}]", columns)
                for caption_index, caption_entry in enumerate(entry_value)
            ]
        if side == "references":
            yield CaptionRow(location, image_id, references=reference_list(entry_value, location, "the value"))
            continue
        if entry_value is None or isinstance(entry_value, bool | int | float):
            caption_text(entry_value, location, "the value")
        candidate_texts = reference_list(entry_value, location, "the value")
        if not candidate_texts:
            raise NotCandidates(
                f"{location}: the list of candidates is empty; leave the image out, or give it a caption"
            )
        for candidate in candidate_texts:
            yield CaptionRow(location, image_id, candidate=candidate)


def _caption_of(item: Any, image_id: str, location: str, columns: Columns) -> Any:
    """The caption of an object, as COCO's annotations are; its other fields are ignored, but not another image's id."""
    if not isinstance(item, Mapping):
        return item
    _refuse_other_id(item, image_id, location, columns)
    caption_fields = [
        name for name in item if isinstance(name, str) and columns.field(name) in ("candidate", "references")
    ]
    if len(caption_fields) != 1:
        raise InputError(
            f"{location}: the fields are {suggest_names(item)}; expected one caption among them, such as "
            '{"caption": "a dog"}'
        )
    columns.ignored.update(name for name in item if isinstance(name, str) and columns.field(name) is None)
    return item[caption_fields[0]]


def _refuse_other_id(caption_entry: Mapping[Any, Any], image_id: str, location: str, columns: Columns) -> None:
    """Raises if an object under an image's key names another image."""
    for name, value in caption_entry.items():
        is_id = isinstance(name, str) and columns.field(name) == "image_id" and value is not None
        if is_id and image_key(value, location, name) != image_id:
            raise InputError(
                f"{location}: {name} is {shorten(str(value))} under the key {shorten(image_id)}, expected the same "
                "image; give the rows as a list, or under one key such as results"
            )


def _refuse_nested(fields: Mapping[Any, Any], location: str, columns: Columns) -> None:
    """Raises if an object under a key holds other objects instead of the captions of an image."""
    is_known = any(
        isinstance(field_name, str) and (field_name == "captions" or columns.field(field_name)) for field_name in fields
    )
    if fields and not is_known and all(map(_is_nested, fields.values())):
        raise InputError(
            f"{location}: it holds {suggest_names(fields)}, which are objects or lists of them, where the captions of "
            "an image were expected; write the part of the file that holds the captions to a file of its own"
        )


def _is_nested(field_value: Any) -> bool:
    return isinstance(field_value, Mapping) or (
        isinstance(field_value, list) and bool(field_value) and isinstance(field_value[0], Mapping)
    )


def write_candidates(rows: Iterable[CaptionRow], file: BinaryIO) -> None:
    """pycocoevalcap's `{id: [candidate, ...]}`."""
    by_image: dict[str, list[str]] = {}
    for caption_row in rows:
        by_image.setdefault(caption_row.image_id, []).append(caption_row.candidate or "")
    _write(by_image, file)


def write_single_candidates(rows: Iterable[CaptionRow], file: BinaryIO) -> None:
    """CLIPScore's `{image: candidate}`; an image with two candidates is an `InputError`."""
    single_candidates: dict[str, str] = {}
    for row in rows:
        if row.image_id in single_candidates:
            raise InputError(
                f"image {row.image_id!a} has several candidates, and this format holds one; convert to pycocoevalcap, "
                "or choose one system"
            )
        single_candidates[row.image_id] = row.candidate or ""
    _write(single_candidates, file)


def write_references(rows: Iterable[CaptionRow], file: BinaryIO) -> None:
    """`{id: [reference, ...]}`."""
    _write({caption_row.image_id: list(caption_row.references or ()) for caption_row in rows}, file)


def _write(entries: Mapping[str, Any], file: BinaryIO) -> None:
    entry_lines = (
        json.dumps(entry_key, ensure_ascii=False) + ": " + json.dumps(entry_value, ensure_ascii=False)
        for entry_key, entry_value in entries.items()
    )
    file.write(("{\n" + ",\n".join(entry_lines) + "\n}\n" if entries else "{}\n").encode())
