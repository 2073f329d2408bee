"""Documents of JSON or YAML, objects of the same form, and lines: where in them the captions stand.

The places are looked for in this order: the document is one row; rows under a key (of several keys: of splits, or of
classes, if all their ids differ); captions keyed by image or video; any of these one level deeper. Samples of a hundred
entries decide, so that the order of keys changes nothing.

>>> from capmeter.captions.fields import FieldMap
>>> document = {"overall": {"CIDEr": 0.9}, "imgToEval": {"7": {"caption": "a dog", "CIDEr": 0.5}}}
>>> format, read = find_form(document, "res.json", FieldMap())
>>> format, [(row.image_id, row.candidate) for row in read("candidates")]
('pycocoevalcap', [('7', 'a dog')])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from capmeter.captions import layouts
from capmeter.captions.event_fields import is_video, read_video
from capmeter.captions.fields import FieldMap
from capmeter.captions.layouts import FIELD_OF, FORMAT_OPTION, IMAGE_NAMES, NAMES, TIMES, find_layout, suggest_names
from capmeter.captions.rows import (
    CaptionRow,
    NotCandidates,
    Side,
    are_named_pairs,
    caption_text,
    decode_texts,
    image_key,
    nested_names,
    optional_text,
    read_list,
    read_pairs,
    reference_field,
    reference_list,
    spread,
)
from capmeter.core.errors import InputError
from capmeter.core.messages import describe, list_names, shorten

Form = tuple[str, Callable[[Side], Iterator[CaptionRow]]]
"""The format that captions in a document have, and what reads them."""
_WRAPPERS, _SPLITS, _SETTINGS = (frozenset(NAMES[each]) for each in ("rows", "splits", "settings"))
"""Keys that hold the rows of results, lists that are splits, and what a program notes of itself: none is an image."""
_OTHER_IDS = ("file_name", "open_images_id", "open-images-id")
_DEPTH, _MOST_KEYS = 3, 50
_ROW_NAMES = {"candidate", "references", "system", "human", "captions", "timestamps", "start", "end", "box", "image"}
_ROW_NAMES |= layouts.OTHER_NAMES.keys() - {"caption"}
_TEXT_KEYS = {"captions", "chapters", "events", "segments", "timestamps", *layouts.OTHER_NAMES}
_COLUMN_NAMES = {*IMAGE_NAMES, *FIELD_OF, *_TEXT_KEYS}.union(*(layout.marks for layout in layouts.LAYOUTS))


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
    if isinstance(document, list) and not document:
        raise InputError(f"{name}: an empty list; no captions were written")
    if isinstance(document, str | bytes) or not isinstance(document, Mapping | Sequence) or not document:
        is_other = hasattr(document, "__iter__") and not isinstance(document, str | bytes | Mapping | Sequence)
        advice = ("; name the file itself" if hasattr(document, "read") else "; give list(…) of it") * is_other
        if hasattr(document, "columns"):
            advice = "; read data frames with capmeter.integrations.frames.read(candidates, references)"
        raise InputError(f"{name}: {describe(document)}, expected captions as a list or an object{advice}")
    form: Form | None
    if isinstance(document, Sequence):
        form = None if format in ("pycocoevalcap", "clipscore") else _find_in_list(document, name, fields)
    elif format in ("pycocoevalcap", "clipscore"):
        form = format, _keyed_form(document, name, fields)[1]
    elif format == "events" and all(map(_is_empty, document.values())):
        form = format, partial(_read_videos, document, name)
    else:
        form = _find_captions(document, name, fields) or _refuse_or_keyed(document, name, fields)
    if form is None or (format not in (None, form[0]) and not {format, form[0]} <= {"json", "coco", "events"}):
        raise InputError(f"{name}: {describe(document)} is not in the format {format}; leave the format out")
    return (format or form[0]), form[1]


def _find_captions(document: Mapping[Any, Any], name: str, fields: FieldMap) -> Form | None:
    """The form of an object, by `layouts.SHORT_NAMES` alone only where no captions are found without them."""
    failure: InputError | None = None
    for fields.finds_short in (False, True):
        try:
            if (form := _find(document, name, fields, ())) is not None:
                return form
        except InputError as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return None


def _rows_of_columns(document: Mapping[Any, Any], mapping: Mapping[str, str]) -> list[dict[Any, Any]]:
    """The rows of a table by columns: for each name a list, or an object by row; none if an object is no such table.

    pandas and Weights & Biases also write the names as `columns`, and the rows as `data`.
    """
    names, cells = document.get("columns"), document.get("data")
    if isinstance(names, list) and isinstance(cells, list) and all(isinstance(row, list) for row in cells):
        return [dict(zip(map(str, names), row, strict=False)) for row in cells]
    document = {name: c for name, c in document.items() if name not in _SETTINGS or isinstance(c, Mapping | list)}
    names_images = not document.keys().isdisjoint(IMAGE_NAMES)
    held = {name: FIELD_OF[name] for name in document if not names_images and name in FIELD_OF}
    if len(set(held.values())) == len(held) == 2:
        document = {held.get(name, name): column for name, column in document.items()}
    columns, rows = list(document.values()), list[dict[Any, Any]]()
    if document.keys().isdisjoint(_COLUMN_NAMES) or not columns[0] or _are_images(document, mapping):
        return []
    are_named = names_images or find_layout([document]) is not None
    if are_named and all(isinstance(column, Mapping) and column.keys() == columns[0].keys() for column in columns):
        rows = [{name: column[place] for name, column in document.items()} for place in columns[0]]
    elif all(isinstance(column, list) and len(column) == len(columns[0]) for column in columns):
        rows = [dict(zip(document, cells, strict=True)) for cells in zip(*columns, strict=True)]
    cells = [cell for row in rows[:1] for name, cell in row.items() if name not in IMAGE_NAMES]
    have_rows = any(isinstance(cell, Mapping) and not cell.keys().isdisjoint(IMAGE_NAMES) for cell in cells)
    is_other = not names_images and (len(columns) == 1 or not document.keys().isdisjoint({"timestamps", *TIMES}))
    return rows if not (have_rows or is_other) and _rows_of(rows, FieldMap(mapping)) else []


def _probe(records: Sequence[Any], fields: FieldMap) -> FieldMap:
    """What a sample of records says about their fields, by the user's names and a layout."""
    probe = FieldMap(fields.mapping, numbered=False)
    probe.learn(records, find_layout(records), short=fields.finds_short)
    return probe


def _find_in_list(items: Sequence[Any], name: str, fields: FieldMap) -> Form:
    records = spread(items)
    if 2 * sum(isinstance(record, Mapping) for record in records) >= len(records):
        return _rows_form(items, name, fields)
    if are_named_pairs(items):
        return "named", lambda side: read_pairs(((place, *pair) for place, pair in _places(items, name)), side)
    return "list", lambda side: read_list(_places(items, name), side)


def _places(items: Sequence[Any] | Mapping[str, Any], name: str) -> Iterable[tuple[str, Any]]:
    """The items of a list with their locations, which are the keys of a mapping."""
    return items.items() if isinstance(items, Mapping) else ((f"{name}[{k}]", item) for k, item in enumerate(items))


def _find(document: Mapping[Any, Any], name: str, fields: FieldMap, parents: tuple[Any, ...]) -> Form | None:
    """The form of an object inside others; None if no captions are found in it, or it contains itself."""
    if len(parents) > _DEPTH or any(document is parent for parent in parents):
        return None
    if rows := _rows_of_columns(document, fields.mapping):
        fields.note("columns", "an object of columns, as data frames are written; its k-th values are a row")
        return _rows_form({f"{name}, row {k}": row for k, row in enumerate(rows)}, name, fields)
    if is_row(document, fields):
        return _rows_form({name: document}, name, fields, format="json")
    if rows := _rows_of_both(document, fields):
        fields.learn(spread(rows))
        held = {"candidates": "candidate", "references": "references"}
        return "json", lambda side: fields.read(_places([row for row in rows if held[side] in row], name), side)
    annotations = document.get("annotations")
    if isinstance(annotations, list) and all(isinstance(each, list) and len(each) == 1 for each in annotations):  # VIST
        document = {**document, "annotations": (annotations := [each for (each,) in annotations])}
    row_keys = _find_row_keys(document, fields)
    if not row_keys and (isinstance(document.get("categories"), list) or "samples" in document):
        _refuse_without_captions(document, name)
    if not row_keys and isinstance(annotations, list) and all(isinstance(entry, Mapping) for entry in annotations):
        row_keys = ["annotations"]
    if row_keys:
        return _rows_under_keys(document, row_keys, name, fields)
    holders = [key for key, value in document.items() if isinstance(value, Mapping | list) and value]
    holder = document[holders[0]] if len(holders) == 1 and holders[0] in {*_WRAPPERS, *FIELD_OF} else None
    if isinstance(holder, list) and all(isinstance(item, str | list) for item in spread(holder)):
        fields.ignore(document, holders)
        return _find_in_list(holder, f"{name}, {holders[0]}", fields)
    keyed = {key: value for key, value in document.items() if key not in _SETTINGS or isinstance(value, Mapping | list)}
    keyed = dict(document) if _are_images(document, fields.mapping) else keyed
    if keyed and _holds_keyed(keyed, fields):
        fields.ignore(document, keyed)
        return _keyed_form(keyed, name, fields)
    objects = [key for key, value in document.items() if isinstance(key, str) and isinstance(value, Mapping) and value]
    inner, texts = list[str](), list[str]()
    for key in objects if len(objects) <= _MOST_KEYS >> len(parents) else ():
        probe = FieldMap(fields.mapping, name, finds_short=fields.finds_short)
        form = _find(document[key], f"{name}, {key}", probe, (*parents, document))
        if form is not None:
            (inner if key in _WRAPPERS or form[0] != "clipscore" else texts).append(key)
    inner += [key for key in texts if any(not document[key].keys().isdisjoint(document[o]) for o in inner)]
    inner = [key for key in inner if key in _WRAPPERS] or inner or texts * _are_classes(document, texts)
    if len(inner) > 1 and _are_classes(document, inner):
        fields.ignore(document, inner)
        fields.note("rows_under_several_keys", list_names(inner))
        splits = {str(image): key for key in inner if key.lower() in _SPLITS for image in document[key]}
        format, read = _keyed_form({image: c for key in inner for image, c in document[key].items()}, name, fields)
        return format, lambda side: (replace(row, split=splits.get(row.image_id, row.split)) for row in read(side))
    if len(inner) > 1:
        raise InputError(
            f"{name}: there are captions under several keys ({list_names(inner)}), and any could be meant; write one "
            "of them to a file of its own"
        )
    if inner:
        fields.ignore(document, inner)
        return _find(document[inner[0]], f"{name}, {inner[0]}", fields, (*parents, document))
    results = next((document[key] for key in ("results", "database") if isinstance(document.get(key), Mapping)), None)
    if results and all(map(_is_empty, results.values())):  # videos in which nothing was found
        return "events", partial(_read_videos, results, name)
    return None


def _are_images(document: Mapping[Any, Any], mapping: Mapping[str, str]) -> bool:
    """Whether keys are images, one of which is called like a field, or, with the text of a caption, like a setting."""
    names = document.keys() & {*_COLUMN_NAMES, *_SETTINGS}
    if mapping or len(names) != 1 or len(document) < 4 or len(set(map(type, document.values()))) != 1:
        return False
    texts = [text for value in document.values() for text in (value if isinstance(value, list) else [value])]
    are_texts = len(texts) < len(document) ** 2 and all(isinstance(text, str) for text in texts)  # else many rows
    setting = str(document[name]) if (name := names.pop()) and are_texts else ""
    is_caption = name != "prompt" and len(setting.split()) > 3 and not any(map(str.isdigit, setting))
    others = (layouts.fold_name(key) for key in document if isinstance(key, str) and key != name)
    return are_texts and (is_caption or name not in _SETTINGS) and not any(map(layouts.is_known, others))


def _are_classes(document: Mapping[Any, Any], keys: list[str]) -> bool:
    """Whether keys, none of them a field's, are splits or classes: all have captions of other images under them."""
    images = [image for key in keys for image in document[key]]
    return len(set(images)) == len(images) > len(keys) > 1 and FIELD_OF.keys().isdisjoint([*keys, *images])


def _rows_of_both(document: Mapping[Any, Any], fields: FieldMap) -> list[dict[Any, Any]]:
    """Candidates by image, and references by image, under names of these two fields: a row for each image."""
    named = [key for key, value in document.items() if key in FIELD_OF and isinstance(value, Mapping)]
    columns = {FIELD_OF[key]: document[key] for key in named}
    candidates, references = columns.get("candidate", {}), columns.get("references", {})
    if len(named) > 2 or candidates.keys().isdisjoint(references):
        return []
    fields.ignore(document, named)
    for image_id in references.keys() - candidates.keys():
        fields.note("references_without_candidate", str(image_id))
    columns = {"image_id": {key: key for key in candidates | references}, **columns}
    return [{name: column[key] for name, column in columns.items() if key in column} for key in columns["image_id"]]


def _refuse_or_keyed(document: Mapping[Any, Any], name: str, fields: FieldMap) -> Form:
    """The error for an object without captions; captions keyed by image where their own messages say more."""
    _refuse_without_captions(document, name)
    lists = [
        key
        for key, value in document.items()
        if isinstance(value, list) and value and all(isinstance(entry, Mapping) for entry in spread(value))
    ]
    if len({type(value) for value in spread(document.values()) if value is not None}) > 2:  # the fields of a row
        return _rows_form({name: document}, name, fields, format="json")
    if len(lists) == 1 and len(document) > 1 and not any(isinstance(value, str) for value in document.values()):
        return _rows_form(document[lists[0]], f"{name}, {lists[0]}", fields, format="json")
    objects = [value for value in document.values() if isinstance(value, Mapping)]
    are_texts = any(objects) and all(isinstance(text, str) for value in spread(objects) for text in value.values())
    if len(document) == len(objects) > 1 and are_texts and all(each.keys() == objects[0].keys() for each in objects):
        raise InputError(
            f"{name}: each key ({list_names(list(map(str, document)))}) holds a text for {suggest_names(objects[0])}; "
            "if the keys are systems, write one of the objects to a file of its own; if they are images, say which "
            f"text is the candidate: --column candidate=NAME {layouts.IN_PYTHON}"
        )
    return _keyed_form(document, name, fields)


def _refuse_without_captions(document: Mapping[Any, Any], name: str) -> None:
    for marks, holder, sentence in NAMES["files without captions"]:
        if document.keys() >= set(marks) and _is_empty(document.get(holder)):
            raise InputError(f"{name}: {sentence.format(status=document.get('status'))}")


def is_row(document: Mapping[Any, Any], fields: FieldMap, *, is_line: bool = False) -> bool:
    """Whether an object is one row, as by the columns that the user named, rather than captions keyed by image.

    Args:
        document: the object.
        fields: with the user's names.
        is_line: whether it is the only line of a file of JSON lines.
    """
    layout = find_layout([document])
    has_image = not document.keys().isdisjoint(IMAGE_NAMES)
    has_short = is_line or any(isinstance(document.get(name), str) for name in layouts.SHORT_NAMES)
    has_objects = any(isinstance(v[0] if isinstance(v, list) and v else v, Mapping) for v in document.values())
    return not (_are_images(document, fields.mapping) or _rows_of_columns(document, fields.mapping)) and (
        any(layouts.path_root(column) in document for column in fields.mapping)
        or any(isinstance(document.get(name), str | list) for name in ("candidate", "references"))
        or (has_image and (not document.keys().isdisjoint(_TEXT_KEYS) or is_video(document) is True))
        or (layout is not None and (len(layout.marks) > 1 or has_image or "images" in document))
        or (has_short and not has_objects and has_image)
    )


def _rows_of(value: Any, fields: FieldMap) -> FieldMap | None:
    """What a sample of a list of records says about their fields; None if it is not a list of records of captions."""
    if not isinstance(value, list) or not value:
        return None
    records = [record for record in spread(value) if isinstance(record, Mapping)]
    probe = _probe(records, fields)
    count = sum(map(probe.holds_captions, records))
    return probe if count and 2 * count >= len(spread(value)) else None


def _find_row_keys(document: Mapping[Any, Any], fields: FieldMap) -> list[str]:
    """The keys that hold rows rather than captions of the images that they name; a sample says whether to try all."""
    keys = [key for key, value in document.items() if isinstance(key, str) and isinstance(value, list) and value]
    known_keys = [key for key in keys if key in _WRAPPERS or key.lower() in _SPLITS]
    if any(_has_rows(key, document[key], fields) for key in spread(keys) if key not in known_keys):
        known_keys = keys
    return [key for key in known_keys if _has_rows(key, document[key], fields)]


def _has_rows(key: str, value: Any, fields: FieldMap) -> bool:
    """Whether a key holds rows rather than captions of the image that it names."""
    probe = _rows_of(value, fields)
    if probe is None:
        return False
    if key in _WRAPPERS or key.lower() in _SPLITS or (probe.layout is not None and len(probe.layout.marks) > 1):
        return True
    ids = [probe.image_of(record) for record in spread(value)]
    return key not in ids and any(ids)


def _rows_under_keys(document: Mapping[Any, Any], row_keys: list[str], name: str, fields: FieldMap) -> Form:
    """Rows under one key, or under several that are splits or classes of one data set."""
    others = [key for key in document if isinstance(key, str) and key not in row_keys]
    placed = ((f"{name}, {key}[{k}]", key, row) for key in row_keys for k, row in enumerate(document[key]))
    if all(key.lower() in _SPLITS for key in row_keys):
        fields.ignored.update(key for key in others if key.lower() not in _SPLITS)
        rows = {place: {"split": key, **row} if isinstance(row, Mapping) else row for place, key, row in placed}
        return _rows_form(rows, name, fields)
    rivals = [key for key in others if _rows_of(document[key], fields)]
    lists = {key: value for key, value in document.items() if isinstance(value, list)}
    if len(row_keys) == 1 and not rivals:
        (key,) = row_keys
        table = next(((each, document[each]) for each in NAMES["images"] if each != key and each in lists), None)
        fields.ignore(document, [key, *(table or ())[:1]])
        if key == "samples" and (status := document.get("status")) in ("cancelled", "error", "started"):
            fields.note("incomplete_log", f"the run ended with the status {status}: samples may be missing")
        return _rows_form(document[key], name, fields, key=key, table=table)
    rows = {place: row for place, _, row in placed}
    probe = _probe(spread(rows.values()), fields)
    ids_by_key = [set(map(probe.image_of, document[key])) for key in row_keys]
    all_ids = set().union(*ids_by_key)
    are_unclear = None in all_ids or len(all_ids) < sum(map(len, ids_by_key))
    if not rivals and (are_unclear or probe.image_name == "id") and all(is_video(document[key]) for key in row_keys):
        return _keyed_form(lists, name, fields)
    if are_unclear or rivals:
        raise InputError(
            f"{name}: there are rows of captions under several keys ({list_names([*row_keys, *rivals])}), and any "
            "could be meant; write one of the lists to a file of its own"
        )
    fields.ignored.update(others)
    fields.note("rows_under_several_keys", list_names(row_keys))
    return _rows_form(rows, name, fields)


def _rows_form(
    items: Sequence[Any] | Mapping[str, Any],
    name: str,
    fields: FieldMap,
    *,
    key: str = "",
    table: tuple[str, list[Any]] | None = None,
    format: str = "",
) -> Form:
    """Rows of a list, or by their locations, with what a second list says of the images."""
    values = items.values() if isinstance(items, Mapping) else items
    records = [row for row in spread(values) if isinstance(row, Mapping)]
    names = {each for record in records for each in record if isinstance(each, str)}
    layout = fields.forced_layout or find_layout(records)
    is_coco = "caption" in names and not names & _ROW_NAMES and layout is None and not fields.mapping
    if not format:
        format = "karpathy" if layout is not None and layout.name == "karpathy" and key else "json"
        format = "coco" if is_coco or (key == "annotations" and table) else format
    fields.ids_are_other = is_coco or key == "annotations"
    fields.learn(records, layout)
    return format, partial(_read_rows, items, f"{name}, {key}" if key else name, fields, key == "annotations", table)


def _read_rows(
    items: Any, name: str, fields: FieldMap, are_annotations: bool, table: tuple[str, list[Any]] | None, side: Side
) -> Iterator[CaptionRow]:
    if are_annotations and side == "candidates":
        raise NotCandidates(
            f"{name}: these are COCO annotations, which hold references, where candidates were expected; are the two "
            "files swapped? Candidates come as COCO results: a list of {image_id, caption}"
        )
    images: dict[str, CaptionRow] = {}
    if side == "references" and table is not None:
        place = f"{name.partition(', ')[0]}, {table[0]}"
        held = set(map(fields.image_of, spread(items)))
        images = {row.image_id: row for row in _read_table(table[1], place, are_annotations, held, fields.image_name)}
    if are_annotations:
        yield from _group_annotations(items, name, fields, images)
        return
    for row in fields.read(_places(items, name), side):
        if row.split is None and row.image_id in images:
            row.split = images[row.image_id].split
        yield row


def _group_annotations(
    items: Sequence[Any], name: str, fields: FieldMap, images: dict[str, CaptionRow]
) -> Iterator[CaptionRow]:
    """One row of references for each image of these rows, which may have no annotation; events stay rows."""
    reference_lists: dict[str, list[str]] = {image_id: [] for image_id in images}
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
            image = images.setdefault(row.image_id, row)
            reference_lists.setdefault(row.image_id, []).extend(row.references or ())
            image.omitted = image.omitted or row.omitted
    for image_id, row in images.items():
        row.references, row.one_of_many = tuple(reference_lists[image_id]), False
        yield row


def _read_table(
    entries: list[Any], name: str, is_strict: bool, images: set[str | None], image_name: str | None
) -> Iterator[CaptionRow]:
    """A row without references for each image or video of a list, by the id that most images have there."""
    file_names: dict[str, str] = {}
    objects = [entry for entry in entries if isinstance(entry, Mapping)]
    id_names = dict.fromkeys((image_name, "id", "image_id", "video_id", "audio_id", "album_id"))
    held = [each for each in id_names if any(each in entry for entry in spread(objects))]
    id_name = max(held, key=lambda each: sum(str(entry.get(each)) in images for entry in objects), default=None)
    for k, entry in enumerate(entries):
        location = f"{name}[{k}]"
        if id_name is None or not isinstance(entry, Mapping) or id_name not in entry:
            if is_strict:
                raise InputError(f"{location}: {describe(entry)}, expected an object with id (and file_name)")
            continue
        image_id = image_key(entry[id_name], location, id_name)
        aliases = [caption_text(entry[each], location, each) for each in _OTHER_IDS if isinstance(entry.get(each), str)]
        file_name = aliases[0] if isinstance(entry.get("file_name"), str) else None
        if file_name is not None and file_names.setdefault(image_id, file_name) != file_name:
            raise InputError(f"{location}: duplicate image id {image_id} with different file names; keep one")
        split = entry["split"] if isinstance(entry.get("split"), str) and entry["split"] else None
        yield CaptionRow(location, image_id, references=(), image=file_name, aliases=tuple(aliases), split=split)


def _is_empty(value: Any) -> bool:
    """Whether a value holds nothing: null, an empty list or an empty object."""
    return value is None or (isinstance(value, list | tuple | Mapping) and not value)


def _entries_of(values: Sequence[Any]) -> list[Any]:
    return [entry for value in values for entry in (spread(value) if isinstance(value, list | tuple) else [value])]


def _holds_keyed(document: Mapping[Any, Any], fields: FieldMap) -> bool:
    """Whether an object holds captions keyed by image or video, as a sample of its values says."""
    values = spread(value for value in document.values() if value is not None)
    have_both = any(isinstance(value, Mapping) and _rows_of_both(value, FieldMap()) for value in values)
    if have_both or all(map(_is_empty, values)) or document.keys() <= FIELD_OF.keys():
        return False
    if any(is_video(value) is True for value in values):
        return 2 * sum(is_video(value) is False for value in values) <= len(values)
    probe = _probe([entry for entry in _entries_of(values) if isinstance(entry, Mapping)], fields)
    for value in values:
        entries = _entries_of([value])
        count = sum(isinstance(entry, str) or probe.holds_captions(entry) for entry in entries)
        if entries and 2 * count <= len(entries):
            return False
    return True


def _keyed_form(document: Any, name: str, fields: FieldMap) -> Form:
    """The form of captions keyed by image or video, whatever the values are; mistakes are found on reading."""
    values = spread(document.values())
    rows = [entry for entry in _entries_of(values) if isinstance(entry, Mapping)]
    are_events = any(is_video(value) is True for value in values)
    layout = fields.forced_layout or (None if are_events else find_layout(rows))
    if rows and all(isinstance(value, Mapping) for value in values) and _have_other_ids(document, fields, layout):
        fields.learn(rows, layout)
        fields.note("keys_are_not_images", "the rows under them have ids of their own")
        return "json", lambda side: fields.read(((f"{name}, key {k!a}", row) for k, row in document.items()), side)
    if are_events:
        return "events", partial(_read_videos, document, name)
    fields.ids_are_other = any(isinstance(value, list) for value in values)
    fields.learn([{**row, "image_id": "key"} for row in rows], layout)
    are_texts = 2 * sum(isinstance(value, str) for value in values) > len(values)
    if are_texts and nested_names([{"": value} for value in values], {"": "candidate"}):
        document = {key: decode_texts({"": value}, [""])[""] for key, value in document.items()}
    return "clipscore" if are_texts else "pycocoevalcap", partial(_read_keyed, document, name, fields)


def _have_other_ids(document: Mapping[Any, Any], fields: FieldMap, layout: Any) -> bool:
    """Whether all rows under keys have an image's id of their own: under numbers from 0 or 1 on, as pandas writes them,
    others than the keys, and not numbers called `id`; else each another `image_id` than its key."""
    probe = _probe(spread(document.values()), fields)
    ids, keys = list(map(probe.image_of, document.values())), list(map(str, document))
    if None in ids:
        return False
    if any(set(keys) == set(map(str, range(first, first + len(keys)))) for first in (0, 1)):
        return keys != ids and (probe.image_name != "id" or not all(str(id).isdigit() for id in ids))
    are_others = len(set(ids)) == len(ids) and all(key != id for key, id in zip(keys, ids, strict=True))
    return probe.image_name == "image_id" and are_others


def _read_keyed(document: Mapping[Any, Any], name: str, fields: FieldMap, side: Side) -> Iterator[CaptionRow]:
    """One row per candidate, or rows of references per image."""
    image_ids: set[str] = set()
    for number, (key, value) in enumerate(document.items()):
        image_id = image_key(key, name, "the key")
        location = f"{name}, key {image_id!a}"
        if image_id in image_ids:
            raise InputError(f"{location}: duplicate key, as a number and as text; keep one")
        image_ids.add(image_id)
        if isinstance(value, Mapping):
            yield from fields.rows(_keyed_record(value, image_id, location, fields), location, side, number)
        elif isinstance(value, list | tuple) and any(isinstance(entry, Mapping) for entry in value):
            for k, entry in enumerate(value):
                place = f"{location}[{k}]"
                entry = {"caption": entry} if isinstance(entry, str) else entry
                for row in fields.rows(_keyed_record(entry, image_id, place, fields), place, side, number):
                    row.one_of_many = True
                    yield row
        elif side == "references":
            yield CaptionRow(location, image_id, references=reference_field(value, location, "the value"))
        else:
            if value is None or isinstance(value, bool | int | float):
                caption_text(value, location, "the value")
            candidates = reference_list(value, location, "the value")
            if not candidates:
                advice = f" (of videos: {FORMAT_OPTION.format('events')})" * all(map(_is_empty, document.values()))
                raise NotCandidates(
                    f"{location}: the list of candidates is empty; leave the image out, or give it a caption{advice}"
                )
            for candidate in candidates:
                yield CaptionRow(location, image_id, candidate=candidate)


def _keyed_record(entry: Any, image_id: str, location: str, fields: FieldMap) -> Any:
    """An object under its image's key, which may repeat that id, with the key as `image_id`."""
    if not isinstance(entry, Mapping):
        return entry
    own_id = entry.get("image_id")
    if own_id is not None and image_key(own_id, location) != image_id:
        raise InputError(
            f"{location}: image_id is {shorten(str(own_id))} under the key {shorten(image_id)}, expected the same "
            "image; give the rows as a list, or under one key such as results"
        )
    nested = entry and all(
        isinstance(value, Mapping) or (isinstance(value, list) and value and isinstance(value[0], Mapping))
        for value in entry.values()
    )
    if nested and not fields.paths and not any(fields.field(name) for name in entry if isinstance(name, str)):
        raise InputError(
            f"{location}: it holds {suggest_names(entry)}, which are objects or lists of them, where the captions of "
            "an image were expected; write the part of the file that holds the captions to a file of its own"
        )
    return layouts.NamedRecord({**entry, "image_id": image_id}, entry)


def _read_videos(document: Mapping[Any, Any], name: str, side: Side) -> Iterator[CaptionRow]:
    """One row per video: its events, as one annotator describes them; as references those of several."""
    for key, value in document.items():
        video_id = image_key(key, name, "the video's id")
        location = f"{name}, video {video_id}"
        split = value.get("subset", value.get("split")) if isinstance(value, Mapping) else None
        row = CaptionRow(location, video_id, split=optional_text(split, location, "subset"), one_of_many=True)
        descriptions = read_video(value, location)
        if side == "references":
            descriptions = tuple(events for events in descriptions if events.times)
            row.references = tuple(events.paragraph for events in descriptions)
            row.reference_events = descriptions
            row.events = descriptions[0] if len(descriptions) == 1 else None
        elif len(descriptions) != 1:
            raise InputError(f"{location}: events of {len(descriptions)} annotators, expected those of one system")
        else:
            row.events, row.candidate = descriptions[0], descriptions[0].paragraph
        yield row
