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
    for number, (key, value) in enumerate(document.items()):
        image_id = image_key(key, name, "the key")
        location = f"{name}, key {image_id!a}"
        if image_id in image_ids:
            raise InputError(f"{location}: duplicate key, as a number and as text; keep one")
        image_ids.add(image_id)
        if isinstance(value, Mapping):
            _refuse_other_id(value, image_id, location, columns)
            _refuse_nested(value, location, columns)
            yield from native_rows(KeyedFields(value, image_id), location, side, columns, number)
            continue
        if isinstance(value, list | tuple) and value and isinstance(value[0], Mapping):
            value = [_caption_of(item, image_id, f"{location}[{k}]", columns) for k, item in enumerate(value)]
        if side == "references":
            yield CaptionRow(location, image_id, references=reference_list(value, location, "the value"))
            continue
        if value is None or isinstance(value, bool | int | float):
            caption_text(value, location, "the value")
        texts = reference_list(value, location, "the value")
        if not texts:
            raise NotCandidates(
                f"{location}: the list of candidates is empty; leave the image out, or give it a caption"
            )
        for text in texts:
            yield CaptionRow(location, image_id, candidate=text)


def _caption_of(item: Any, image_id: str, location: str, columns: Columns) -> Any:
    """The caption of an object, as COCO's annotations are; its other fields are ignored, but not another image's id."""
    if not isinstance(item, Mapping):
        return item
    _refuse_other_id(item, image_id, location, columns)
    names = [name for name in item if isinstance(name, str) and columns.field(name) in ("candidate", "references")]
    if len(names) != 1:
        raise InputError(
            f"{location}: the fields are {suggest_names(item)}; expected one caption among them, such as "
            '{"caption": "a dog"}'
        )
    columns.ignored.update(name for name in item if isinstance(name, str) and columns.field(name) is None)
    return item[names[0]]


def _refuse_other_id(item: Mapping[Any, Any], image_id: str, location: str, columns: Columns) -> None:
    """Raises if an object under an image's key names another image."""
    for name, value in item.items():
        is_id = isinstance(name, str) and columns.field(name) == "image_id" and value is not None
        if is_id and image_key(value, location, name) != image_id:
            raise InputError(
                f"{location}: {name} is {shorten(str(value))} under the key {shorten(image_id)}, expected the same "
                "image; give the rows as a list, or under one key such as results"
            )


def _refuse_nested(fields: Mapping[Any, Any], location: str, columns: Columns) -> None:
    """Raises if an object under a key holds other objects instead of the captions of an image."""
    is_known = any(isinstance(name, str) and (name == "captions" or columns.field(name)) for name in fields)
    if fields and not is_known and all(map(_is_nested, fields.values())):
        raise InputError(
            f"{location}: it holds {suggest_names(fields)}, which are objects or lists of them, where the captions of "
            "an image were expected; write the part of the file that holds the captions to a file of its own"
        )


def _is_nested(value: Any) -> bool:
    return isinstance(value, Mapping) or (isinstance(value, list) and bool(value) and isinstance(value[0], Mapping))


def write_candidates(rows: Iterable[CaptionRow], file: BinaryIO) -> None:
    """pycocoevalcap's `{id: [candidate, ...]}`."""
    by_image: dict[str, list[str]] = {}
    for row in rows:
        by_image.setdefault(row.image_id, []).append(row.candidate or "")
    _write(by_image, file)


def write_single_candidates(rows: Iterable[CaptionRow], file: BinaryIO) -> None:
    """CLIPScore's `{image: candidate}`; an image with two candidates is an `InputError`."""
    single: dict[str, str] = {}
    for row in rows:
        if row.image_id in single:
            raise InputError(
                f"image {row.image_id!a} has several candidates, and this format holds one; convert to pycocoevalcap, "
                "or choose one system"
            )
        single[row.image_id] = row.candidate or ""
    _write(single, file)


def write_references(rows: Iterable[CaptionRow], file: BinaryIO) -> None:
    """`{id: [reference, ...]}`."""
    _write({row.image_id: list(row.references or ()) for row in rows}, file)


def _write(entries: Mapping[str, Any], file: BinaryIO) -> None:
    lines = (
        json.dumps(key, ensure_ascii=False) + ": " + json.dumps(value, ensure_ascii=False)
        for key, value in entries.items()
    )
    file.write(("{\n" + ",\n".join(lines) + "\n}\n" if entries else "{}\n").encode())
