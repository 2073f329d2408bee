"""Documents that hold their rows under a key: `{"predictions": [{"image_id", "caption"}]}`, `{"train": [...], ...}`.

>>> unwrap({"version": "1.0", "results": [{"image_id": 7, "caption": "a dog"}]}, "file", Columns())
[{'image_id': 7, 'caption': 'a dog'}]
>>> unwrap({"7": ["a dog", "a puppy"]}, "file", Columns())
{'7': ['a dog', 'a puppy']}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from capmeter.captions.columns import Columns
from capmeter.captions.documents import is_row
from capmeter.captions.rows import image_key
from capmeter.core.errors import InputError
from capmeter.core.messages import list_names

WRAPPERS = {
    *("annotations", "captions", "data", "generations", "hypotheses", "items", "logs", "outputs", "predictions"),
    *("preds", "records", "responses", "result", "results", "rows", "samples", "sentences"),
}
"""Keys that files of results have for the list of their rows; one of them alone is not an image."""
SPLITS = {"train", "training", "restval", "trainval", "val", "valid", "validation", "dev", "minival", "test", "testing"}
"""Keys of lists that are splits."""


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
    lists = [
        key for key, value in document.items() if isinstance(key, str) and _holds_rows(key, value, columns.mapping)
    ]
    if lists and all(key.lower() in SPLITS for key in lists):
        columns.ignored |= {key for key in document if isinstance(key, str) and key.lower() not in SPLITS}
        return [{"split": key, **row} if isinstance(row, Mapping) else row for key in lists for row in document[key]]
    rest = document.keys() - lists if lists else ()
    others = [key for key in rest if _holds_captions(document[key], columns.mapping)]
    if lists and len(lists) + len(others) > 1:
        keys = list_names(map(str, [*lists, *others]))
        raise InputError(
            f"{name}: there are rows of captions under several keys ({keys}), and any could be meant; write one of the "
            "lists to a file of its own"
        )
    if lists:
        columns.ignored |= {key for key in document if isinstance(key, str) and key not in (*lists, "videos")}
        return _with_splits(document[lists[0]], document.get("videos"))
    holders = [key for key, value in document.items() if isinstance(value, Mapping | list) and value]
    wrappers = [key for key in holders if isinstance(key, str) and key.lower() in WRAPPERS]
    if len(holders) > 1:  # beside settings and the like
        wrappers = [key for key in wrappers if _holds_list(document[key], columns.mapping)]
    if len(wrappers) == 1:
        columns.ignored |= {key for key in document if isinstance(key, str) and key != wrappers[0]}
        return unwrap(document[wrappers[0]], f"{name}, {wrappers[0]}", columns)
    return document


def _is_dataset(document: Mapping[Any, Any]) -> bool:
    """Whether these are COCO's annotations, or a dataset file of Karpathy."""
    images = document.get("images")
    first = images[0] if isinstance(images, list) and images else None
    return isinstance(document.get("annotations"), list) or (isinstance(first, Mapping) and "sentences" in first)


def _holds_captions(value: Any, mapping: Mapping[str, str]) -> bool:
    """Whether a value is a list of objects with captions."""
    if not isinstance(value, list) or not value or not isinstance(value[0], Mapping):
        return False
    fields = Columns(mapping)
    return any(fields.field(name) in ("candidate", "references") for name in value[0] if isinstance(name, str))


def _holds_rows(key: str, value: Any, mapping: Mapping[str, str]) -> bool:
    """Whether a key holds rows rather than captions of the image that it names."""
    if not isinstance(value, list) or not value or not isinstance(value[0], Mapping):
        return False
    fields = Columns(mapping)
    layout = fields.detect_layout(value[0])
    names = {fields.field(name): name for name in value[0] if isinstance(name, str)}
    texts = names.keys() & {"candidate", "references"} or "captions" in value[0]
    if layout is not None or key.lower() in WRAPPERS | SPLITS:
        return bool(texts) or layout is not None
    if not texts or "image_id" not in names:
        return False
    image_id = value[0][names["image_id"]]
    return image_id is None or image_key(image_id, key) != key


def _holds_list(value: Any, mapping: Mapping[str, str]) -> bool:
    """Whether a value is an object that holds rows under a key."""
    return isinstance(value, Mapping) and any(_holds_rows(str(key), each, mapping) for key, each in value.items())


def _with_splits(rows: list[Any], videos: Any) -> list[Any]:
    """The rows; sentences of MSR-VTT get the split of their video."""
    if not isinstance(videos, list):
        return rows
    splits = {each.get("video_id"): each.get("split") for each in videos if isinstance(each, Mapping)}
    return [{**row, "split": splits.get(row.get("video_id"))} if isinstance(row, Mapping) else row for row in rows]
