"""Karpathy's `dataset_coco.json`, `dataset_flickr8k.json`, `dataset_flickr30k.json`: references by split.

The id of an image is its `cocoid` where it has one (COCO), else its `filename` (Flickr).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO

from capmeter.captions.columns import Columns
from capmeter.captions.documents import wrong_form
from capmeter.captions.formats.coco import number_or_text
from capmeter.captions.rows import CaptionRow, NotCandidates, Side, caption_text, image_key, optional_text
from capmeter.core.errors import InputError
from capmeter.core.messages import describe


def read(document: Any, name: str, side: Side, _: Columns) -> Iterator[CaptionRow]:
    """One row per image."""
    if not isinstance(document, Mapping) or not isinstance(document.get("images"), list):
        raise wrong_form(document, name, "karpathy", "images")
    if side == "candidates":
        raise NotCandidates(
            f"{name}: this is a Karpathy dataset file, which holds references, where candidates were expected; are the "
            "two files swapped?"
        )
    for image_number, image in enumerate(document["images"]):
        location = f"{name}, images[{image_number}]"
        if not isinstance(image, Mapping) or not isinstance(image.get("sentences"), list):
            raise InputError(f"{location}: {describe(image)}, expected an object with filename, split and sentences")
        key = image.get("cocoid", image.get("filename"))
        file_name = image.get("filename")
        if isinstance(file_name, str):
            file_name = caption_text(file_name, location, "filename")
        yield CaptionRow(
            location,
            image_key(key, location, "cocoid" if "cocoid" in image else "filename"),
            references=tuple(
                _sentence(sentence_entry, f"{location}, sentences[{sentence_index}]")
                for sentence_index, sentence_entry in enumerate(image["sentences"])
            ),
            image=file_name if isinstance(file_name, str) else None,
            aliases=(file_name,) if isinstance(file_name, str) else (),
            split=optional_text(image.get("split"), location, "split"),
        )


def _sentence(sentence_entry: Any, location: str) -> str:
    if not isinstance(sentence_entry, Mapping) or "raw" not in sentence_entry:
        raise InputError(f"{location}: {describe(sentence_entry)}, expected an object with the caption as raw")
    return caption_text(sentence_entry["raw"], location, "raw")


def write(rows: Iterable[CaptionRow], file: BinaryIO) -> None:
    """The references; images without a split go to `test`."""
    image_lines = []
    sentence_count = 0
    for image_number, caption_row in enumerate(rows):
        key = number_or_text(caption_row.image_id)
        reference_texts = caption_row.references or ()
        sentence_ids = range(sentence_count, sentence_count + len(reference_texts))
        sentence_count += len(reference_texts)
        image_entry: dict[str, Any] = {"imgid": image_number, "split": caption_row.split or "test"}
        if isinstance(key, int):
            image_entry["cocoid"] = key
        if isinstance(key, str) or caption_row.image is not None:
            image_entry["filename"] = caption_row.image if isinstance(key, int) else key
        image_entry["sentids"] = list(sentence_ids)
        image_entry["sentences"] = [
            {"raw": reference_text, "imgid": image_number, "sentid": sentence_id}
            for sentence_id, reference_text in zip(sentence_ids, reference_texts, strict=True)
        ]
        image_lines.append(json.dumps(image_entry, ensure_ascii=False).encode())
    file.write(b'{"images": [\n' + b",\n".join(image_lines) + b'\n], "dataset": "capmeter"}\n')
