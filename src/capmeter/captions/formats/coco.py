"""COCO's two files: results `[{"image_id", "caption"}]` and annotations `{"images": [...], "annotations": [...]}`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from capmeter.captions.columns import IN_PYTHON, Columns, suggest_names
from capmeter.captions.documents import wrong_form
from capmeter.captions.formats.native import read_document
from capmeter.captions.rows import (
    CaptionRow,
    NotCandidates,
    Side,
    candidate_text,
    caption_text,
    image_key,
    optional_text,
)
from capmeter.core.errors import InputError
from capmeter.core.messages import describe

_FIELDS = {"image_id", "caption", "id", "split"}


def read(document: Any, name: str, side: Side, columns: Columns) -> Iterator[CaptionRow]:
    """The rows of a document: results are a list, annotations an object."""
    if isinstance(document, Mapping) and isinstance(document.get("annotations"), list):
        return _read_annotations(document, name, side, columns)
    if isinstance(document, Mapping | str) or not isinstance(document, Sequence):
        raise wrong_form(document, name, "coco", "annotations")
    if columns.mapping:
        return read_document(document, name, side, columns)
    return _read_results(document, name, side, columns)


def _read_results(items: Sequence[Any], source_name: str, side: Side, columns: Columns) -> Iterator[CaptionRow]:
    """One row per entry: a candidate, or one reference of its image."""
    for entry_number, item in enumerate(items):
        split = None
        if isinstance(item, Mapping) and len(item) > 2:
            columns.ignored.update(field_name for field_name in item.keys() - _FIELDS if isinstance(field_name, str))
            if isinstance(item.get("split"), str):
                split = optional_text(item["split"], f"{source_name}[{entry_number}]", "split")
        image_id, caption = _entry(item, source_name, entry_number)
        if side == "candidates":
            caption_row = CaptionRow(f"{source_name}[{entry_number}]", image_id, candidate=caption, split=split)
            yield columns.carry(caption_row, item, entry_number)
        else:
            yield CaptionRow(
                f"{source_name}[{entry_number}]", image_id, references=(caption,), one_of_many=True, split=split
            )


def _read_annotations(document: Mapping[str, Any], name: str, side: Side, columns: Columns) -> Iterator[CaptionRow]:
    """One row per image with all its captions, in the order of their entries."""
    if side == "candidates":
        raise NotCandidates(
            f"{name}: these are COCO annotations, which hold references, where candidates were expected; are the two "
            "files swapped? Candidates come as COCO results: a list of {image_id, caption}"
        )
    annotations, images = document["annotations"], document.get("images") or []
    if not isinstance(images, list):
        raise InputError(f"{name}: annotations and images must be lists, as in COCO's captions_val2014.json")
    file_names: dict[str, str] = {}
    image_captions: dict[str, list[str]] = {}
    other_ids: dict[str, str] = {}
    for entry_number, image_entry in enumerate(images):
        location = f"{name}, images[{entry_number}]"
        if not isinstance(image_entry, Mapping) or "id" not in image_entry:
            raise InputError(f"{location}: {describe(image_entry)}, expected an object with id (and file_name)")
        key = image_key(image_entry["id"], location, "id")
        image_captions[key] = []
        for other_name in ("open_images_id", "open-images-id"):  # NoCaps
            if isinstance(image_entry.get(other_name), str):
                other_ids[key] = image_entry[other_name]
        file_name = image_entry.get("file_name")
        if isinstance(file_name, str):
            file_name = caption_text(file_name, location, "file_name")
        if isinstance(file_name, str) and file_names.setdefault(key, file_name) != file_name:
            raise InputError(f"{location}: duplicate image id {key} with different file names; keep one")
    for entry_number, item in enumerate(_renamed(_without_rejected(annotations), columns)):
        try:
            raw_id, caption = item["image_id"], item["caption"]
            is_plain = type(raw_id) is int and raw_id < 1 << 63 and type(caption) is str and caption.isascii()
        except (KeyError, TypeError, IndexError):
            is_plain = False
        if is_plain:  # inlined, since a file has tens of thousands of these
            image_id = str(raw_id)
        else:
            image_id, caption = _entry(item, f"{name}, annotations", entry_number)
        if image_id in image_captions:
            image_captions[image_id].append(caption)
        else:
            image_captions[image_id] = [caption]
    for image_id, reference_texts in image_captions.items():
        image = file_names.get(image_id)
        aliases = tuple(filter(None, (image, other_ids.get(image_id))))
        yield CaptionRow(
            f"{name}, image {image_id}", image_id, references=tuple(reference_texts), image=image, aliases=aliases
        )


def _without_rejected(annotations: list[Any]) -> list[Any]:
    """The annotations except those that VizWiz marks as rejected or precanned: its evaluation omits both."""
    if not annotations or not isinstance(annotations[0], Mapping) or "is_rejected" not in annotations[0]:
        return annotations
    return [
        annotation
        for annotation in annotations
        if not isinstance(annotation, Mapping) or not (annotation.get("is_rejected") or annotation.get("is_precanned"))
    ]


def _renamed(annotations: list[Any], columns: Columns) -> list[Any]:
    """The annotations with COCO's names of the fields that the user named."""
    coco_fields = {"image_id": "image_id", "references": "caption", "candidate": "caption"}
    coco_names = {name: coco_fields[field] for name, field in columns.mapping.items() if field in coco_fields}
    if not coco_names:
        return annotations
    columns.used |= {name for item in annotations if isinstance(item, Mapping) for name in coco_names if name in item}
    return [_rename(item, coco_names) if isinstance(item, Mapping) else item for item in annotations]


def _rename(item: Mapping[Any, Any], coco_names: Mapping[str, str]) -> dict[Any, Any]:
    """The item with COCO's names of those of these fields that it has; its own fields of these names give way."""
    present_names = {name: field for name, field in coco_names.items() if name in item}
    other_fields = {key: value for key, value in item.items() if key not in present_names.values()}
    return other_fields | {field: item[name] for name, field in present_names.items()}


def _entry(item: Any, location: str, entry_number: int) -> tuple[str, str]:
    """The image id and the caption of an entry of a list."""
    try:
        image_id, caption = item["image_id"], item["caption"]
    except (KeyError, TypeError, IndexError):
        problem = describe(item)
        if isinstance(item, Mapping):
            missing_field = "caption" if "image_id" in item else "image_id"
            problem = f"{missing_field} is missing: the fields are {suggest_names(item)}"
            if missing_field == "caption":
                missing_field = "candidate"
            problem += f"; --column {missing_field}=NAME {IN_PYTHON} says which field it is"
        raise InputError(f'{location}[{entry_number}]: {problem}, expected {{"image_id": …, "caption": "…"}}') from None
    if type(image_id) is int and image_id < 1 << 63 and type(caption) is str and caption.isascii():
        return str(image_id), caption
    location = f"{location}[{entry_number}]"
    return image_key(image_id, location), candidate_text(caption, location, "caption")


def number_or_text(image_id: str) -> int | str:
    """COCO's ids are numbers: numeric text becomes a number again, other text stays text."""
    is_number = (
        image_id.isascii() and image_id.isdigit() and len(image_id) < 19 and (image_id == "0" or image_id[0] != "0")
    )
    return int(image_id) if is_number else image_id


def write_results(rows: Iterable[CaptionRow], file: BinaryIO) -> None:
    """The candidates, in their order."""
    items = [
        {"image_id": number_or_text(caption_row.image_id), "caption": caption_row.candidate} for caption_row in rows
    ]
    _write_list(items, file)
    file.write(b"\n")


def write_annotations(rows: Iterable[CaptionRow], file: BinaryIO) -> None:
    """The references, image by image; annotation ids count from 1."""
    image_entries: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for caption_row in rows:
        key = number_or_text(caption_row.image_id)
        image_entries.append({"id": key} if caption_row.image is None else {"id": key, "file_name": caption_row.image})
        for reference_text in caption_row.references or ():
            annotations.append({"id": len(annotations) + 1, "image_id": key, "caption": reference_text})
    file.write(b'{"images": ')
    _write_list(image_entries, file)
    file.write(b', "annotations": ')
    _write_list(annotations, file)
    file.write(b"}\n")


def _write_list(items: list[dict[str, Any]], file: BinaryIO) -> None:
    entry_lines = b",\n".join(json.dumps(item, ensure_ascii=False).encode() for item in items)
    file.write(b"[\n" + entry_lines + b"\n]" if items else b"[]")
