"""Karpathy's `dataset_coco.json`, `dataset_flickr8k.json`, `dataset_flickr30k.json`: references by split.

The id of an image is its `cocoid` where it has one (COCO), else its `filename` (Flickr).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO

from capmeter.captions.formats.coco import number_or_text
from capmeter.captions.rows import NotCandidates, Row, Side, caption_text, described, image_key, optional_text
from capmeter.errors import InputError


def read(document: Mapping[str, Any], name: str, side: Side) -> Iterator[Row]:
    """One row per image."""
    if side == "candidates":
        raise NotCandidates(
            f"{name}: this is a Karpathy dataset file, which holds references, where candidates were expected; are the "
            "two files swapped?"
        )
    for number, image in enumerate(document["images"]):
        place = f"{name}, images[{number}]"
        if not isinstance(image, Mapping) or not isinstance(image.get("sentences"), list):
            raise InputError(f"{place}: {described(image)}, expected an object with filename, split and sentences")
        key = image.get("cocoid", image.get("filename"))
        file_name = image.get("filename")
        yield Row(
            place,
            image_key(key, place, "cocoid" if "cocoid" in image else "filename"),
            references=tuple(_sentence(item, f"{place}, sentences[{k}]") for k, item in enumerate(image["sentences"])),
            image=file_name if isinstance(file_name, str) else None,
            aliases=(file_name,) if isinstance(file_name, str) else (),
            split=optional_text(image.get("split"), place, "split"),
        )


def _sentence(item: Any, place: str) -> str:
    if not isinstance(item, Mapping) or "raw" not in item:
        raise InputError(f"{place}: {described(item)}, expected an object with the caption as raw")
    return caption_text(item["raw"], place, "raw")


def write(rows: Iterable[Row], file: BinaryIO) -> None:
    """The references; images of no known split go to `test`."""
    images = []
    sentences = 0
    for number, row in enumerate(rows):
        key = number_or_text(row.image_id)
        texts = row.references or ()
        ids = range(sentences, sentences + len(texts))
        sentences += len(texts)
        image: dict[str, Any] = {"imgid": number, "split": row.split or "test"}
        if isinstance(key, int):
            image["cocoid"] = key
        if isinstance(key, str) or row.image is not None:
            image["filename"] = row.image if isinstance(key, int) else key
        image["sentids"] = list(ids)
        image["sentences"] = [{"raw": text, "imgid": number, "sentid": k} for k, text in zip(ids, texts, strict=True)]
        images.append(json.dumps(image, ensure_ascii=False).encode())
    file.write(b'{"images": [\n' + b",\n".join(images) + b'\n], "dataset": "capmeter"}\n')
