"""Captions keyed by image or video: `{id: text}`, `{id: [text, …]}`, `{id: row}`, `{id: [row, …]}`, `{id: events}`.

>>> from capmeter.captions.fields import FieldMap
>>> format, read = make_keyed({"7": ["a dog", "a puppy"], "9": []}, "refs.json", FieldMap())
>>> format, [(row.image_id, row.references) for row in read("references")]
('pycocoevalcap', [('7', ('a dog', 'a puppy')), ('9', ())])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from capmeter.captions.event_fields import is_video, read_video
from capmeter.captions.field_names import names_of, suggest_names
from capmeter.captions.fields import FieldMap
from capmeter.captions.layouts.programs import find_layout
from capmeter.captions.rows import (
    CaptionRow,
    NotCandidates,
    Side,
    caption_text,
    image_key,
    optional_text,
    reference_list,
)
from capmeter.core.errors import InputError
from capmeter.core.messages import shorten

Reader = Callable[[Side], Iterator[CaptionRow]]
Item = TypeVar("Item")
SAMPLE = 100


def sample(items: Sequence[Item]) -> list[Item]:
    """A hundred items, spread over all of them."""
    step = -(-len(items) // SAMPLE)
    return list(items[:: max(step, 1)])


def is_empty(value: Any) -> bool:
    """Whether a value holds nothing: null, an empty list or an empty object."""
    return value is None or (isinstance(value, list | tuple | Mapping) and not value)


def holds_captions(record: Any, fields: FieldMap) -> bool:
    """Whether a record of a sample that these fields know has a caption, references or events."""
    if not isinstance(record, Mapping):
        return False
    if is_video(record) is True or (fields.layout is not None and fields.layout.accepts(names_of(record))):
        return True
    names = (name for name in record if isinstance(name, str))
    return any(fields.field(name, record[name]) in ("candidate", "references") for name in names)


def holds_rows(value: Any, fields: FieldMap) -> FieldMap | None:
    """What a sample of a list of records says about their fields; None if it is not a list of records of captions."""
    if not isinstance(value, list) or not value:
        return None
    records = [record for record in sample(value) if isinstance(record, Mapping)]
    probe = FieldMap(fields.mapping, numbered=False)
    probe.learn(records, find_layout(records))
    count = sum(holds_captions(record, probe) for record in records)
    return probe if count and 2 * count >= len(sample(value)) else None


def find_keyed(document: Mapping[Any, Any], name: str, fields: FieldMap) -> tuple[str, Reader] | None:
    """The format and the reader of captions keyed by image; None if a sample of the values is something else."""
    values = sample(list(document.values()))
    if all(map(is_empty, values)):
        return None
    if any(is_video(value) is True for value in values):
        if 2 * sum(is_video(value) is False for value in values) <= len(values):
            return "events", partial(read_videos, document, name)
        return None
    rows = [row for value in values for row in (sample(value) if isinstance(value, list) else [value])]
    rows = [row for row in rows if isinstance(row, Mapping)]
    probe = FieldMap(fields.mapping, numbered=False)
    probe.learn(rows, find_layout(rows))

    def is_caption(value: Any) -> bool:
        return isinstance(value, str) or holds_captions(value, probe)

    for value in values:
        items = sample(value) if isinstance(value, list | tuple) else [value]
        if items and 2 * sum(map(is_caption, items)) <= len(items):
            return None
    return make_keyed(document, name, fields)


def make_keyed(document: Mapping[Any, Any], name: str, fields: FieldMap) -> tuple[str, Reader]:
    """The format and the reader of captions keyed by image, whatever the values are; mistakes are found on reading."""
    values = sample(list(document.values()))
    rows = [row for value in values for row in (sample(value) if isinstance(value, list) else [value])]
    rows = [row for row in rows if isinstance(row, Mapping)]
    layout = fields.forced_layout or find_layout(rows)
    if rows and all(isinstance(value, Mapping) for value in values) and _have_other_ids(document, fields, layout):
        fields.learn(rows, layout)
        fields.note("keys_are_not_images", "the rows under them have ids of their own")
        return "json", partial(_read_rows, document, name, fields)
    fields.ids_are_other = any(isinstance(value, list) for value in values)
    fields.learn([{**row, "image_id": "key"} for row in rows], layout)
    are_texts = 2 * sum(isinstance(value, str) for value in values) > len(values)
    return "clipscore" if are_texts else "pycocoevalcap", partial(_read, document, name, fields)


def _have_other_ids(document: Mapping[Any, Any], fields: FieldMap, layout: Any) -> bool:
    """Whether all rows under keys have an image's id of their own, and none has that of its key."""
    probe = FieldMap(fields.mapping, numbered=False)
    rows = list(document.values())
    probe.learn(sample(rows), layout)
    if probe.image_name != "image_id" or (layout is not None and layout.convert is not None):
        return False
    pairs = [(key, probe.image_of(row) if isinstance(row, Mapping) else None) for key, row in document.items()]
    image_ids = {image_id for _, image_id in pairs}
    return None not in image_ids and len(image_ids) == len(pairs) and all(str(key) != other for key, other in pairs)


def _read_rows(document: Mapping[Any, Any], name: str, fields: FieldMap, side: Side) -> Iterator[CaptionRow]:
    for number, (key, row) in enumerate(document.items()):
        yield from fields.rows(row, f"{name}, key {key!a}", side, number)


def _read(document: Mapping[Any, Any], name: str, fields: FieldMap, side: Side) -> Iterator[CaptionRow]:
    """One row per candidate, or rows of references per image."""
    image_ids: set[str] = set()
    for number, (key, value) in enumerate(document.items()):
        image_id = image_key(key, name, "the key")
        location = f"{name}, key {image_id!a}"
        if image_id in image_ids:
            raise InputError(f"{location}: duplicate key, as a number and as text; keep one")
        image_ids.add(image_id)
        if isinstance(value, Mapping):
            yield from _keyed_row(value, image_id, location, fields, side, number)
        elif isinstance(value, list | tuple) and any(isinstance(entry, Mapping) for entry in value):
            for k, entry in enumerate(value):
                entry = {"caption": entry} if isinstance(entry, str) else entry
                yield from _keyed_row(entry, image_id, f"{location}[{k}]", fields, side, number)
        elif side == "references":
            yield CaptionRow(location, image_id, references=_texts(value, location))
        else:
            if value is None or isinstance(value, bool | int | float):
                caption_text(value, location, "the value")
            candidates = _texts(value, location)
            if not candidates:
                raise NotCandidates(
                    f"{location}: the list of candidates is empty; leave the image out, or give it a caption"
                )
            for candidate in candidates:
                yield CaptionRow(location, image_id, candidate=candidate)


def _texts(value: Any, location: str) -> tuple[str, ...]:
    return reference_list(value, location, "the value")


def _keyed_row(
    entry: Any, image_id: str, location: str, fields: FieldMap, side: Side, number: int
) -> Iterator[CaptionRow]:
    """The rows of an object under its image's key, which may repeat that id."""
    if isinstance(entry, Mapping):
        own_id = entry.get("image_id")
        if own_id is not None and image_key(own_id, location) != image_id:
            raise InputError(
                f"{location}: image_id is {shorten(str(own_id))} under the key {shorten(image_id)}, expected the same "
                "image; give the rows as a list, or under one key such as results"
            )
        nested = entry and all(isinstance(value, Mapping) or _is_row_list(value) for value in entry.values())
        if nested and not any(fields.field(name) for name in entry if isinstance(name, str)):
            raise InputError(
                f"{location}: it holds {suggest_names(entry)}, which are objects or lists of them, where the captions "
                "of an image were expected; write the part of the file that holds the captions to a file of its own"
            )
        entry = KeyedRecord(entry, image_id)
    for row in fields.rows(entry, location, side, number):
        row.one_of_many = row.one_of_many or location.endswith("]")
        yield row


class KeyedRecord(dict[Any, Any]):
    """The fields of a row that stands under its image's key, and that key as `image_id`, which messages do not list."""

    def __init__(self, entry: Mapping[Any, Any], image_id: str) -> None:
        super().__init__({**entry, "image_id": image_id})
        self.own_names = list(entry)


def _is_row_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)


def read_videos(document: Mapping[Any, Any], name: str, side: Side) -> Iterator[CaptionRow]:
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
            row.events = descriptions[0]
            row.candidate = row.events.paragraph
        yield row
