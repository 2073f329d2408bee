"""JSON documents, and objects of the same form: where in them the captions stand.

The places are looked for in this order: the document is one row; rows under a key (of several keys: of splits, or of
classes, if all their ids differ); captions keyed by image or video; any of these one level deeper. Samples of a hundred
entries decide, so that the order of keys changes nothing.

>>> from capmeter.captions.fields import FieldMap
>>> document = {"overall": {"CIDEr": 0.9}, "imgToEval": {"7": {"caption": "a dog", "CIDEr": 0.5}}}
>>> form = find_form(document, "res.json", FieldMap())
>>> form.format, [(row.image_id, row.candidate) for row in form.rows("candidates")]
('pycocoevalcap', [('7', 'a dog')])
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from capmeter.captions.event_fields import is_video
from capmeter.captions.field_names import OTHER_NAMES
from capmeter.captions.fields import FieldMap
from capmeter.captions.layouts import keyed, texts
from capmeter.captions.layouts.keyed import Reader, sample
from capmeter.captions.layouts.programs import find_layout
from capmeter.captions.rows import CaptionRow, NotCandidates, Side, caption_text, image_key
from capmeter.core.errors import InputError
from capmeter.core.messages import describe, list_names

_WRAPPERS = {
    *("annotations", "captions", "data", "generations", "hypotheses", "items", "logs", "outputs", "predictions"),
    *("preds", "records", "responses", "result", "results", "rows", "samples", "sentences", "imgToEval", "database"),
    *("files", "images"),
}
"""Keys that files of results have for their rows; one of them alone is not an image."""
_SPLITS = {
    "train",
    "training",
    "restval",
    "trainval",
    "val",
    "valid",
    "validation",
    "dev",
    "minival",
    "test",
    "testing",
}
"""Keys of lists that are splits."""
_TABLES = ("images", "videos", "audio samples", "audios", "clips")
"""Keys of lists that describe what the captions under another key are of."""
_OTHER_IDS = ("file_name", "open_images_id", "open-images-id")
_DEPTH, _MOST_KEYS = 3, 50
_ROW_NAMES = {"candidate", "references", "system", "human", "captions", "timestamps", "start", "end", "box", "image"}
_ROW_NAMES |= OTHER_NAMES.keys() - {"caption"}


@dataclass(frozen=True)
class Form:
    """Captions in a document: the format that they have, and what reads them."""

    format: str
    rows: Reader


def find_form(document: Any, name: str, fields: FieldMap, format: str | None = None) -> Form:
    """Where a document's captions stand, and in which form.

    Args:
        document: the content of a file.
        name: the file, for messages.
        fields: which names hold which fields; it learns from a sample, and keys that are not read are `ignored`.
        format: the form, if the user named it.

    Raises:
        InputError: there are no captions, or they could stand in several places.
    """
    if isinstance(document, str | bytes) or not isinstance(document, Mapping | Sequence) or not document:
        if isinstance(document, list):
            raise InputError(f"{name}: an empty list; no captions were written")
        raise InputError(f"{name}: {describe(document)}, expected captions as a list or an object{_advice(document)}")
    if format in ("pycocoevalcap", "clipscore"):
        return _keyed_form(document, name, fields, format)
    form = _find_in_list(document, name, fields) if isinstance(document, Sequence) else _find(document, name, fields, 0)
    if format == "events" and isinstance(document, Mapping):
        form = form if form is not None and form.format == "events" else _events_form(document, name, fields)
    elif form is None and isinstance(document, Mapping):
        form = _refuse_or_keyed(document, name, fields)
    assert form is not None
    if format not in (None, form.format, "events") and {format, form.format} != {"json", "coco"}:
        raise wrong_form(document, name, format or "")
    return form if format is None else Form(format, form.rows)


def _find_in_list(items: Sequence[Any], name: str, fields: FieldMap) -> Form:
    records = sample(items)
    if 2 * sum(isinstance(record, Mapping) for record in records) >= len(records):
        return _rows_form(items, name, fields)
    first_item = items[0]
    if all(item is None or isinstance(item, bool | int | float) for item in records):
        raise InputError(f"{name}[0]: {describe(first_item)}, expected a caption, a list of references or an object")
    if texts.are_named_pairs(items):
        return Form("named", partial(texts.read_pairs, items, name))
    return Form("list", partial(texts.read_list, items, name))


def _find(document: Mapping[Any, Any], name: str, fields: FieldMap, depth: int) -> Form | None:
    """The form of an object; None if no captions are found in it."""
    if depth > _DEPTH:
        return None
    if is_row(document, fields):
        return _rows_form([document], name, fields, format="json")
    row_keys = _find_row_keys(document, fields)
    annotations = document.get("annotations")
    if not row_keys and isinstance(annotations, list) and all(isinstance(entry, Mapping) for entry in annotations):
        row_keys = ["annotations"]
    if row_keys:
        return _rows_under_keys(document, row_keys, name, fields)
    holder_keys = [key for key, value in document.items() if isinstance(value, Mapping | list) and value]
    holder = document[holder_keys[0]] if len(holder_keys) == 1 and holder_keys[0] in _WRAPPERS else None
    if isinstance(holder, list) and all(isinstance(item, str) for item in sample(holder)):
        fields.ignored.update(key for key in document if isinstance(key, str) and key != holder_keys[0])
        return _find_in_list(holder, f"{name}, {holder_keys[0]}", fields)
    if (keyed_form := keyed.find_keyed(document, name, fields)) is not None:
        return Form(*keyed_form)
    inner_keys = [
        key for key, value in document.items() if isinstance(key, str) and isinstance(value, Mapping) and value
    ]
    inner: dict[str, Form] = {}
    for key in inner_keys if len(inner_keys) <= _MOST_KEYS else ():
        inner_form = _find(document[key], f"{name}, {key}", FieldMap(fields.mapping, name), depth + 1)
        if inner_form is not None and (key in _WRAPPERS or inner_form.format != "clipscore"):
            inner[key] = inner_form
    inner = {key: form for key, form in inner.items() if key in _WRAPPERS} or inner
    if len(inner) > 1:
        raise InputError(
            f"{name}: there are captions under several keys ({list_names(inner)}), and any could be meant; write one "
            "of them to a file of its own"
        )
    for key in inner:
        fields.ignored.update(other for other in document if isinstance(other, str) and other != key)
        return _find(document[key], f"{name}, {key}", fields, depth + 1)
    results = next((document[key] for key in ("results", "database") if isinstance(document.get(key), Mapping)), None)
    if results and all(map(keyed.is_empty, results.values())):  # videos in which nothing was found
        return _events_form(document, name, fields)
    return None


def _refuse_or_keyed(document: Mapping[Any, Any], name: str, fields: FieldMap) -> Form:
    """The error for an object without captions; captions keyed by image where their own messages say more."""
    if "samples" in document and {"status", "eval"} & document.keys() and not document["samples"]:
        raise InputError(
            f"{name}: a log of Inspect with the status {document.get('status')} and no samples; log them "
            "(--log-samples), or run the evaluation again"
        )
    if {"version", "status", "eval"} <= document.keys() and "samples" not in document:
        raise InputError(f"{name}: a log of Inspect (status {document.get('status')}) without its samples")
    if isinstance(document.get("images"), list) and not isinstance(document.get("annotations"), list):
        raise InputError(
            f"{name}: it has images, but neither annotations (COCO) nor sentences (Karpathy): it holds no captions"
        )
    return _keyed_form(document, name, fields, None)


def is_row(document: Mapping[Any, Any], fields: FieldMap) -> bool:
    """Whether an object is one row, as by the columns that the user named, rather than captions keyed by image."""
    layout = find_layout([document])
    return (
        any(column in document for column in fields.mapping)
        or any(isinstance(document.get(name), str | list) for name in ("candidate", "references"))
        or ("image_id" in document and not document.keys().isdisjoint(("captions", "timestamps", *OTHER_NAMES)))
        or (layout is not None and len(layout.marks) > 1)
    )


def _find_row_keys(document: Mapping[Any, Any], fields: FieldMap) -> list[str]:
    """The keys that hold rows rather than captions of the images that they name; a sample says whether to try all."""
    keys = [key for key, value in document.items() if isinstance(key, str) and isinstance(value, list) and value]
    known_keys = [key for key in keys if key in _WRAPPERS or key.lower() in _SPLITS]
    if any(_holds_rows(key, document[key], fields) for key in sample(keys) if key not in known_keys):
        known_keys = keys
    return [key for key in known_keys if _holds_rows(key, document[key], fields)]


def _holds_rows(key: str, value: Any, fields: FieldMap) -> bool:
    """Whether a key holds rows rather than captions of the image that it names."""
    probe = keyed.holds_rows(value, fields)
    if probe is None:
        return False
    if key in _WRAPPERS or key.lower() in _SPLITS or (probe.layout is not None and len(probe.layout.marks) > 1):
        return True
    ids = [probe.image_of(record) for record in sample(value) if isinstance(record, Mapping)]
    return all(image_id is None or image_id != key for image_id in ids) and any(ids)


def _rows_under_keys(document: Mapping[Any, Any], row_keys: list[str], name: str, fields: FieldMap) -> Form:
    """Rows under one key, or under several that are splits or classes of one data set."""
    others = {key for key in document if isinstance(key, str) and key not in row_keys}
    if all(key.lower() in _SPLITS for key in row_keys):
        fields.ignored |= {key for key in others if key.lower() not in _SPLITS}
        rows = [{"split": key, **row} if isinstance(row, Mapping) else row for key in row_keys for row in document[key]]
        return _rows_form(rows, name, fields)
    rivals = [key for key in others if keyed.holds_rows(document[key], fields)]
    if len(row_keys) == 1 and not rivals:
        key = row_keys[0]
        table = next((other for other in _TABLES if other != key and isinstance(document.get(other), list)), None)
        fields.ignored |= others - {table}
        status = document.get("status")
        if key == "samples" and "eval" in document and status not in (None, "success"):
            fields.note("incomplete_log", f"the run ended with the status {status}: samples may be missing")
        return _rows_form(document[key], name, fields, key=key, table=(table, document[table]) if table else None)
    rows = [row for key in row_keys for row in document[key]]
    probe = FieldMap(fields.mapping, numbered=False)
    probe.learn(sample(rows), find_layout(sample(rows)))
    ids_by_key = [{probe.image_of(row) for row in document[key] if isinstance(row, Mapping)} for key in row_keys]
    all_ids = set().union(*ids_by_key)
    if None in all_ids or len(all_ids) < sum(map(len, ids_by_key)) or rivals:
        raise InputError(
            f"{name}: there are rows of captions under several keys ({list_names([*row_keys, *rivals])}), and any "
            "could be meant; write one of the lists to a file of its own"
        )
    fields.ignored |= others
    fields.note("rows_under_several_keys", list_names(row_keys))
    return _rows_form(rows, name, fields)


def _rows_form(
    items: Sequence[Any],
    name: str,
    fields: FieldMap,
    *,
    key: str = "",
    table: tuple[str, list[Any]] | None = None,
    format: str = "",
) -> Form:
    """Rows of a list, with what a second list says of the images."""
    records = [record for record in sample(items) if isinstance(record, Mapping)]
    names = {each for record in records for each in record if isinstance(each, str)}
    layout = fields.forced_layout or find_layout(records)
    is_coco = "caption" in names and not names & _ROW_NAMES and layout is None and not fields.mapping
    if not format:
        format = "karpathy" if layout is not None and layout.name == "karpathy" and key else "json"
        format = "coco" if is_coco or (key == "annotations" and table) else format
    fields.ids_are_other = is_coco or key == "annotations"
    fields.learn(records, layout)
    place = f"{name}, {key}" if key in ("annotations", "images") else name
    return Form(format, partial(_read_rows, items, place, fields, key == "annotations", table))


def _read_rows(
    items: Sequence[Any],
    name: str,
    fields: FieldMap,
    are_annotations: bool,
    table: tuple[str, list[Any]] | None,
    side: Side,
) -> Iterator[CaptionRow]:
    if are_annotations and side == "candidates":
        raise NotCandidates(
            f"{name}: these are COCO annotations, which hold references, where candidates were expected; are the two "
            "files swapped? Candidates come as COCO results: a list of {image_id, caption}"
        )
    splits: dict[str, str] = {}
    image_rows: dict[str, CaptionRow] = {}
    if side == "references" and table is not None:
        for row in _read_table(table[1], f"{name.partition(', ')[0]}, {table[0]}", are_annotations):
            image_rows[row.image_id] = row
            splits |= {row.image_id: row.split} if row.split is not None else {}
    if are_annotations:
        yield from _group_annotations(items, name, fields, image_rows)
        return
    for k, item in enumerate(items):
        pair = fields.plain_pair(item) if side == "candidates" else None
        if pair is not None:
            yield CaptionRow(f"{name}[{k}]", *pair)
            continue
        for row in fields.rows(item, f"{name}[{k}]", side, k):
            if splits and row.split is None:
                row.split = splits.get(row.image_id)
            yield row


def _group_annotations(
    items: Sequence[Any], name: str, fields: FieldMap, image_rows: dict[str, CaptionRow]
) -> Iterator[CaptionRow]:
    """One row of references for each image of these rows, which may have no annotation; events stay rows."""
    reference_lists: dict[str, list[str]] = {image_id: [] for image_id in image_rows}
    for k, item in enumerate(items):
        pair = fields.plain_pair(item)
        if pair is not None and pair[0] in reference_lists:
            reference_lists[pair[0]].append(pair[1])
            continue
        for row in fields.rows(item, f"{name}[{k}]", "references", k):
            if row.events is not None or row.annotator is not None:
                row.one_of_many = True
                yield row
                continue
            image_row = image_rows.get(row.image_id)
            if image_row is None:
                image_row = image_rows[row.image_id] = row
                reference_lists[row.image_id] = []
            reference_lists[row.image_id] += row.references or ()
            image_row.omitted = image_row.omitted or row.omitted
    for image_id, row in image_rows.items():
        row.references, row.one_of_many = tuple(reference_lists[image_id]), False
        yield row


def _read_table(entries: list[Any], name: str, is_strict: bool) -> Iterator[CaptionRow]:
    """A row without references for each image or video of a list: its file, its other names and its split."""
    file_names: dict[str, str] = {}
    for k, entry in enumerate(entries):
        location = f"{name}[{k}]"
        id_name = "id" if isinstance(entry, Mapping) and "id" in entry else None
        if id_name is None and isinstance(entry, Mapping):
            id_name = next((each for each in ("image_id", "video_id", "audio_id") if each in entry), None)
        if id_name is None:
            if is_strict:
                raise InputError(f"{location}: {describe(entry)}, expected an object with id (and file_name)")
            continue
        image_id = image_key(entry[id_name], location, id_name)
        aliases = [entry[other] for other in _OTHER_IDS if other in entry and isinstance(entry[other], str)]
        for alias in aliases:
            caption_text(alias, location, "file_name")
        file_name = aliases[0] if isinstance(entry.get("file_name"), str) else None
        if file_name is not None and file_names.setdefault(image_id, file_name) != file_name:
            raise InputError(f"{location}: duplicate image id {image_id} with different file names; keep one")
        split = entry.get("split")
        split = split if isinstance(split, str) and split else None
        yield CaptionRow(location, image_id, references=(), image=file_name, aliases=tuple(aliases), split=split)


def _keyed_form(document: Any, name: str, fields: FieldMap, format: str | None) -> Form:
    if not isinstance(document, Mapping):
        raise wrong_form(document, name, format or "pycocoevalcap")
    detected_format, reader = keyed.make_keyed(document, name, fields)
    return Form(format or detected_format, reader)


def _events_form(document: Mapping[Any, Any], name: str, fields: FieldMap) -> Form:
    """Videos with events by id, under `results` or `database` where there is one of these."""
    for key in ("results", "database"):
        if isinstance(document.get(key), Mapping):
            fields.ignored.update(other for other in document if isinstance(other, str) and other != key)
            document = document[key]
            break
    if any(is_video(value) is False for value in sample(list(document.values()))):
        raise wrong_form(document, name, "events")
    return Form("events", partial(keyed.read_videos, document, name))


def _advice(document: Any) -> str:
    """What to do with an object that is neither a list nor a mapping, but could become captions."""
    if isinstance(document, Iterator):
        return "; it can be read only once: give list(…) of it"
    return "; read data frames with capmeter.integrations.frames.read" if hasattr(document, "columns") else ""


def wrong_form(document: Any, name: str, format: str) -> InputError:
    """The error for a document that does not have this format."""
    return InputError(f"{name}: {describe(document)} is not in the format {format}; leave the format out")
