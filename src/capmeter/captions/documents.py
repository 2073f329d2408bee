"""JSON documents, and objects of the same form: their format, and rows that they hold under a key.

>>> detect_format({"1": ["a dog", "one dog"]}, "refs.json"), detect_format([["1.jpg", "a dog"]], "refs.json")
('pycocoevalcap', 'named')
>>> unwrap({"version": "1.0", "results": [{"image_id": 7, "caption": "a dog"}]}, "file", Columns())
[{'image_id': 7, 'caption': 'a dog'}]
>>> unwrap({"7": ["a dog", "a puppy"]}, "file", Columns())
{'7': ['a dog', 'a puppy']}
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from capmeter.captions.columns import Columns
from capmeter.captions.layouts import OTHER_NAMES, find_layout
from capmeter.captions.rows import image_key
from capmeter.core.errors import InputError
from capmeter.core.messages import describe, list_names

FILE_NAME = re.compile(r"[^\s,|;]{1,1000}\.(?i:jpe?g|png|webp|gif|bmp|tiff?|mp4|avi|mkv|webm|mov|wav|flac|mp3)")
"""The name of an image's, video's or sound's file."""
_IMAGE_NAME = re.compile(FILE_NAME.pattern + r"|(?=[^\s\d]*\d)\S{1,1000}")
WRAPPERS = {
    *("annotations", "captions", "data", "generations", "hypotheses", "items", "logs", "outputs", "predictions"),
    *("preds", "records", "responses", "result", "results", "rows", "samples", "sentences"),
}
"""Keys that files of results have for the list of their rows; one of them alone is not an image."""
SPLITS = {"train", "training", "restval", "trainval", "val", "valid", "validation", "dev", "minival", "test", "testing"}
"""Keys of lists that are splits."""


def is_row(document: Any, named_columns: Collection[str] = ()) -> bool:
    """Whether an object is one row, as by the columns that the user named, rather than captions keyed by image."""
    return isinstance(document, Mapping) and (
        any(column in document for column in named_columns)
        or "candidate" in document
        or "references" in document
        or ("image_id" in document and not document.keys().isdisjoint(("captions", "timestamps", *OTHER_NAMES)))
        or find_layout(document) is not None
    )


def _advice(document: Any) -> str:
    """What to do with an object that is neither a list nor a mapping, but could become captions."""
    if isinstance(document, Iterator):
        return "; it can be read only once: give list(…) of it"
    return "; read data frames with capmeter.integrations.frames.read" if hasattr(document, "columns") else ""


def detect_format(document: Any, name: str) -> str:
    """The format of a JSON document, or of an object of the same form."""
    if is_row(document):
        return "json"
    if events_in(document) is not None:
        return "events"
    if isinstance(document, list) and not document:
        raise InputError(f"{name}: an empty list; no captions were written")
    if not isinstance(document, Mapping | Sequence) or isinstance(document, str | bytes) or not document:
        raise InputError(f"{name}: {describe(document)}, expected captions as a list or an object{_advice(document)}")
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
    first_item = document[0]
    if isinstance(first_item, Mapping):
        event_names = ("captions", "timestamps", "start", "end", "box")
        row_names = {"candidate", "references", "system", "human", *event_names, *OTHER_NAMES} - {"caption"}
        is_result = "caption" in first_item and not first_item.keys() & row_names and find_layout(first_item) is None
        return "coco" if is_result else "json"
    if first_item is None or isinstance(first_item, bool | int | float):
        raise InputError(f"{name}[0]: {describe(first_item)}, expected a caption, a list of references or an object")
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
    for wrapper_key in ("results", "database"):
        if isinstance(document.get(wrapper_key), Mapping):
            document = document[wrapper_key]
            break
    first_value = next(iter(document.values()), None)
    field_names: set[Any] = set(first_value) if isinstance(first_value, Mapping) else set()
    if isinstance(first_value, list) and first_value and isinstance(first_value[0], Mapping):
        field_names = set(first_value[0])
    marks = ({"timestamps", "sentences"}, {"timestamp", "sentence"}, {"chapters"}, {"subset", "annotations"})
    return document if any(mark <= field_names for mark in marks) else None


def wrong_form(document: Any, name: str, format: str, key: str = "") -> InputError:
    """The error for a document that does not have this format, which is a list under `key` or at the top."""
    if isinstance(document, Mapping) and key:
        listed_keys = list_names(key if isinstance(key, str) else describe(key) for key in document)
        return InputError(f"{name}: no list {key!r}, which the format {format} has (the keys are {listed_keys})")
    return InputError(f"{name}: {describe(document)} is not in the format {format}; leave the format out")


def unwrap(document: Any, name: str, columns: Columns) -> Any:
    """The rows, or the captions by image, that a document holds under a key; any other document unchanged.

    Args:
        document: the content of a file.
        name: the file, for messages.
        columns: which columns hold which fields; keys that are not read are among its `ignored`.

    Raises:
        InputError: rows under several keys.
    """
    if not isinstance(document, Mapping) or not document or is_row(document) or _is_dataset(document):
        return document
    row_keys = [
        key for key, value in document.items() if isinstance(key, str) and _holds_rows(key, value, columns.mapping)
    ]
    if row_keys and all(key.lower() in SPLITS for key in row_keys):
        columns.ignored |= {key for key in document if isinstance(key, str) and key.lower() not in SPLITS}
        return [{"split": key, **row} if isinstance(row, Mapping) else row for key in row_keys for row in document[key]]
    other_keys = document.keys() - row_keys if row_keys else ()
    caption_keys = [key for key in other_keys if _holds_captions(document[key], columns.mapping)]
    if row_keys and len(row_keys) + len(caption_keys) > 1:
        keys = list_names(map(str, [*row_keys, *caption_keys]))
        raise InputError(
            f"{name}: there are rows of captions under several keys ({keys}), and any could be meant; write one of the "
            "lists to a file of its own"
        )
    if row_keys:
        columns.ignored |= {key for key in document if isinstance(key, str) and key not in (*row_keys, "videos")}
        return _with_splits(document[row_keys[0]], document.get("videos"))
    holder_keys = [key for key, value in document.items() if isinstance(value, Mapping | list) and value]
    wrapper_keys = [key for key in holder_keys if isinstance(key, str) and key.lower() in WRAPPERS]
    if len(holder_keys) > 1:  # beside settings and the like
        wrapper_keys = [key for key in wrapper_keys if _holds_list(document[key], columns.mapping)]
    if len(wrapper_keys) == 1:
        columns.ignored |= {key for key in document if isinstance(key, str) and key != wrapper_keys[0]}
        return unwrap(document[wrapper_keys[0]], f"{name}, {wrapper_keys[0]}", columns)
    return document


def _is_dataset(document: Mapping[Any, Any]) -> bool:
    """Whether these are COCO's annotations, or a dataset file of Karpathy."""
    images = document.get("images")
    first_image = images[0] if isinstance(images, list) and images else None
    return isinstance(document.get("annotations"), list) or (
        isinstance(first_image, Mapping) and "sentences" in first_image
    )


def _holds_captions(value: Any, column_mapping: Mapping[str, str]) -> bool:
    """Whether a value is a list of objects with captions."""
    if not isinstance(value, list) or not value or not isinstance(value[0], Mapping):
        return False
    known_columns = Columns(column_mapping)
    return any(known_columns.field(name) in ("candidate", "references") for name in value[0] if isinstance(name, str))


def _holds_rows(key: str, value: Any, column_mapping: Mapping[str, str]) -> bool:
    """Whether a key holds rows rather than captions of the image that it names."""
    if not isinstance(value, list) or not value or not isinstance(value[0], Mapping):
        return False
    known_columns = Columns(column_mapping)
    row_layout = known_columns.detect_layout(value[0])
    field_columns = {
        known_columns.field(column_name): column_name for column_name in value[0] if isinstance(column_name, str)
    }
    text_fields = field_columns.keys() & {"candidate", "references"} or "captions" in value[0]
    if row_layout is not None or key.lower() in WRAPPERS | SPLITS:
        return bool(text_fields) or row_layout is not None
    if not text_fields or "image_id" not in field_columns:
        return False
    image_id = value[0][field_columns["image_id"]]
    return image_id is None or image_key(image_id, key) != key


def _holds_list(value: Any, column_mapping: Mapping[str, str]) -> bool:
    """Whether a value is an object that holds rows under a key."""
    return isinstance(value, Mapping) and any(
        _holds_rows(str(key), held_value, column_mapping) for key, held_value in value.items()
    )


def _with_splits(sentence_rows: list[Any], videos: Any) -> list[Any]:
    """The rows; sentences of MSR-VTT get the split of their video."""
    if not isinstance(videos, list):
        return sentence_rows
    splits = {video.get("video_id"): video.get("split") for video in videos if isinstance(video, Mapping)}
    return [
        {**row, "split": splits.get(row.get("video_id"))} if isinstance(row, Mapping) else row for row in sentence_rows
    ]
