"""COCO's two files: results `[{"image_id", "caption"}]` and annotations `{"images": [...], "annotations": [...]}`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from capmeter.captions.rows import NotCandidates, Row, Side, caption_text, described, image_key
from capmeter.errors import InputError


def read_results(items: Sequence[Any], name: str, side: Side) -> Iterator[Row]:
    """One row per entry: a candidate, or one reference of its image."""
    for number, item in enumerate(items):
        image_id, caption = _entry(item, name, "", number)
        if side == "candidates":
            yield Row(f"{name}[{number}]", image_id, candidate=caption)
        else:
            yield Row(f"{name}[{number}]", image_id, references=(caption,), one_of_many=True)


def read_annotations(document: Mapping[str, Any], name: str, side: Side) -> Iterator[Row]:
    """One row per image with all its captions, in the order of their entries."""
    if side == "candidates":
        raise NotCandidates(
            f"{name}: these are COCO annotations, which hold references, where candidates were expected; are the two "
            "files swapped? Candidates come as COCO results: a list of {image_id, caption}"
        )
    annotations, images = document["annotations"], document.get("images") or []
    if not isinstance(annotations, list) or not isinstance(images, list):
        raise InputError(f"{name}: annotations and images must be lists, as in COCO's captions_val2014.json")
    file_names: dict[str, str] = {}
    captions: dict[str, list[str]] = {}
    others: dict[str, str] = {}
    for number, entry in enumerate(images):
        place = f"{name}, images[{number}]"
        if not isinstance(entry, Mapping) or "id" not in entry:
            raise InputError(f"{place}: {described(entry)}, expected an object with id (and file_name)")
        key = image_key(entry["id"], place, "id")
        captions[key] = []
        for other in ("open_images_id", "open-images-id"):  # NoCaps
            if isinstance(entry.get(other), str):
                others[key] = entry[other]
        file_name = entry.get("file_name")
        if isinstance(file_name, str) and file_names.setdefault(key, file_name) != file_name:
            raise InputError(f"{place}: duplicate image id {key} with different file names; keep one")
    for number, item in enumerate(_kept(annotations)):
        try:
            raw_id, caption = item["image_id"], item["caption"]
            usual = type(raw_id) is int and raw_id < 1 << 63 and type(caption) is str and caption.isascii()
        except (KeyError, TypeError, IndexError):
            usual = False
        if usual:  # spelled out, since a file has tens of thousands of these
            image_id = str(raw_id)
        else:
            image_id, caption = _entry(item, name, "annotations", number)
        if image_id in captions:
            captions[image_id].append(caption)
        else:
            captions[image_id] = [caption]
    for image_id, texts in captions.items():
        image = file_names.get(image_id)
        aliases = tuple(filter(None, (image, others.get(image_id))))
        yield Row(f"{name}, image {image_id}", image_id, references=tuple(texts), image=image, aliases=aliases)


def _kept(annotations: list[Any]) -> list[Any]:
    """Without what VizWiz marks as rejected, or as saying only that nothing can be seen: its evaluation omits both."""
    if not annotations or not isinstance(annotations[0], Mapping) or "is_rejected" not in annotations[0]:
        return annotations
    return [
        each
        for each in annotations
        if not isinstance(each, Mapping) or not (each.get("is_rejected") or each.get("is_precanned"))
    ]


def _entry(item: Any, name: str, where: str, number: int) -> tuple[str, str]:
    try:
        image_id, caption = item["image_id"], item["caption"]
    except (KeyError, TypeError, IndexError):
        missing = "image_id" if isinstance(item, Mapping) and "image_id" not in item else "caption"
        came = f"{missing} is missing ({described(item)})" if isinstance(item, Mapping) else described(item)
        place = _place(name, where, number)
        raise InputError(f'{place}: {came}, expected {{"image_id": …, "caption": "…"}}') from None
    if type(image_id) is int and image_id < 1 << 63 and type(caption) is str and caption.isascii():
        return str(image_id), caption
    place = _place(name, where, number)
    return image_key(image_id, place), caption_text(caption, place, "caption")


def _place(name: str, where: str, number: int) -> str:
    return f"{name}, {where}[{number}]" if where else f"{name}[{number}]"


def number_or_text(image_id: str) -> int | str:
    """COCO's ids are numbers: numeric text becomes a number again, other text is kept."""
    plain = image_id.isascii() and image_id.isdigit() and len(image_id) < 19 and (image_id == "0" or image_id[0] != "0")
    return int(image_id) if plain else image_id


def write_results(rows: Iterable[Row], file: BinaryIO) -> None:
    """The candidates, in their order."""
    items = [{"image_id": number_or_text(row.image_id), "caption": row.candidate} for row in rows]
    _write_list(items, file)
    file.write(b"\n")


def write_annotations(rows: Iterable[Row], file: BinaryIO) -> None:
    """The references, image by image; annotation ids count from 1."""
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for row in rows:
        key = number_or_text(row.image_id)
        images.append({"id": key} if row.image is None else {"id": key, "file_name": row.image})
        for text in row.references or ():
            annotations.append({"id": len(annotations) + 1, "image_id": key, "caption": text})
    file.write(b'{"images": ')
    _write_list(images, file)
    file.write(b', "annotations": ')
    _write_list(annotations, file)
    file.write(b"}\n")


def _write_list(items: list[dict[str, Any]], file: BinaryIO) -> None:
    lines = b",\n".join(json.dumps(item, ensure_ascii=False).encode() for item in items)
    file.write(b"[\n" + lines + b"\n]" if items else b"[]")
