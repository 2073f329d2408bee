"""The format of a JSON document, or of an object of the same form.

>>> detect_format({"1": ["a dog", "one dog"]}, "refs.json"), detect_format([["1.jpg", "a dog"]], "refs.json")
('pycocoevalcap', 'named')
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from capmeter.captions.layouts import OTHER_NAMES, find_layout
from capmeter.core.errors import InputError
from capmeter.core.messages import describe, list_names

FILE_NAME = re.compile(r"[^\s,|;]{1,1000}\.(?i:jpe?g|png|webp|gif|bmp|tiff?|mp4|avi|mkv|webm|mov|wav|flac|mp3)")
"""The name of an image's, video's or sound's file."""
_IMAGE_NAME = re.compile(FILE_NAME.pattern + r"|(?=[^\s\d]*\d)\S{1,1000}")


def is_row(document: Any) -> bool:
    """Whether an object is one native row rather than captions keyed by image."""
    return isinstance(document, Mapping) and (
        "candidate" in document
        or "references" in document
        or ("image_id" in document and not document.keys().isdisjoint(("captions", "timestamps", *OTHER_NAMES)))
        or find_layout(document) is not None
    )


def detect_format(document: Any, name: str) -> str:
    """The format of a JSON document, or of an object of the same form."""
    if is_row(document):
        return "json"
    if events_in(document) is not None:
        return "events"
    if isinstance(document, list) and not document:
        raise InputError(f"{name}: an empty list; no captions were written")
    if not isinstance(document, Mapping | Sequence) or isinstance(document, str | bytes) or not document:
        raise InputError(f"{name}: {describe(document)}, expected captions as a list or an object")
    if isinstance(document, Mapping):
        if isinstance(document.get("annotations"), list):
            return "coco"
        images = document.get("images")
        if isinstance(images, list) and images and isinstance(images[0], Mapping):
            if "sentences" in images[0]:
                return "karpathy"
            raise InputError(
                f"{name}: it has images, but neither annotations (COCO) nor sentences (Karpathy): it holds no captions"
            )
        return "clipscore" if isinstance(next(iter(document.values())), str) else "pycocoevalcap"
    first = document[0]
    if isinstance(first, Mapping):
        times = ("captions", "timestamps", "start", "end", "box")
        row_names = {"candidate", "references", "system", "human", *times, *OTHER_NAMES} - {"caption"}
        is_result = "caption" in first and not first.keys() & row_names and find_layout(first) is None
        return "coco" if is_result else "json"
    if first is None or isinstance(first, bool | int | float):
        raise InputError(f"{name}[0]: {describe(first)}, expected a caption, a list of references or an object")
    return "named" if are_named_pairs(document) else "list"


def are_named_pairs(items: Any) -> bool:
    """Whether every item of a list is a pair of an image's number, or name, and a caption.

    A name is a file's, or one word with a digit in it; a list of two references is not taken for one unless that holds
    of every first one, and every second one has several words.
    """
    if isinstance(items, Mapping | str | bytes) or not isinstance(items, Sequence) or not items:
        return False
    return all(
        isinstance(item, Sequence)
        and not isinstance(item, str)
        and len(item) == 2
        and (type(item[0]) is int or (isinstance(item[0], str) and _IMAGE_NAME.fullmatch(item[0]) is not None))
        and isinstance(item[1], str)
        and len(item[1].split(maxsplit=1)) == 2
        for item in items
    )


def events_in(document: Any) -> Mapping[Any, Any] | None:
    """The videos of a document with events in time, by id (see `capmeter.captions.formats.events`); None: it has none.

    The first video decides.
    """
    if not isinstance(document, Mapping):
        return None
    for key in ("results", "database"):
        if isinstance(document.get(key), Mapping):
            document = document[key]
            break
    first = next(iter(document.values()), None)
    names: set[Any] = set(first) if isinstance(first, Mapping) else set()
    if isinstance(first, list) and first and isinstance(first[0], Mapping):
        names = set(first[0])
    marks = ({"timestamps", "sentences"}, {"timestamp", "sentence"}, {"chapters"}, {"subset", "annotations"})
    return document if any(mark <= names for mark in marks) else None


def wrong_form(document: Any, name: str, format: str, key: str = "") -> InputError:
    """The error for a document that does not have this format, which is a list under `key` or at the top."""
    if isinstance(document, Mapping) and key:
        keys = list_names(key if isinstance(key, str) else describe(key) for key in document)
        return InputError(f"{name}: no list {key!r}, which the format {format} has (the keys are {keys})")
    return InputError(f"{name}: {describe(document)} is not in the format {format}; leave the format out")
