"""Captions keyed by image: pycocoevalcap's `{id: [caption, ...]}` and CLIPScore's `{image: caption}`.

References are `{id: [reference, ...]}` in both. Captions may also be COCO's objects, `{id: [{"caption": text}]}`, as
pycocoevalcap has them before tokenisation.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO

from capmeter.captions.rows import NotCandidates, Row, Side, caption_text, image_key, reference_list
from capmeter.errors import InputError


def read(document: Mapping[Any, Any], name: str, side: Side) -> Iterator[Row]:
    """One row per candidate, or one row of references per image."""
    seen: set[str] = set()
    for key, value in document.items():
        image_id = image_key(key, name, "the key")
        place = f"{name}, key {image_id!a}"
        if image_id in seen:
            raise InputError(f"{place}: duplicate key, as a number and as text; keep one")
        seen.add(image_id)
        if side == "references":
            yield Row(place, image_id, references=reference_list(value, place, "the value"))
        elif isinstance(value, str):
            yield Row(place, image_id, candidate=caption_text(value, place, "the value"))
        else:
            if value is None or isinstance(value, bool | int | float | Mapping):
                caption_text(value, place, "the value")
            texts = reference_list(value, place, "the value")
            if not texts:
                raise NotCandidates(
                    f"{place}: the list of candidates is empty; leave the image out, or give it a caption"
                )
            for text in texts:
                yield Row(place, image_id, candidate=text)


def write_candidates(rows: Iterable[Row], file: BinaryIO) -> None:
    """pycocoevalcap's `{id: [candidate, ...]}`."""
    grouped: dict[str, list[str]] = {}
    for row in rows:
        grouped.setdefault(row.image_id, []).append(row.candidate or "")
    _write(grouped, file)


def write_single_candidates(rows: Iterable[Row], file: BinaryIO) -> None:
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


def write_references(rows: Iterable[Row], file: BinaryIO) -> None:
    """`{id: [reference, ...]}`."""
    _write({row.image_id: list(row.references or ()) for row in rows}, file)


def _write(entries: Mapping[str, Any], file: BinaryIO) -> None:
    lines = (
        json.dumps(key, ensure_ascii=False) + ": " + json.dumps(value, ensure_ascii=False)
        for key, value in entries.items()
    )
    file.write(("{\n" + ",\n".join(lines) + "\n}\n" if entries else "{}\n").encode())
