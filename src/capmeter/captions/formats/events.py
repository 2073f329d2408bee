"""Documents of videos with events in time, as benchmarks of dense video captioning publish them.

    results          {"results": {video: [{"sentence": text, "timestamp": [start, end]}, ...]}}     ActivityNet Captions
    ground truth     {video: {"duration": seconds, "timestamps": [[start, end], ...], "sentences": [text, ...]}}
    YouCook2         {"database": {video: {"subset": split, "annotations": [{"segment": [...], "sentence": text}]}}}
    VidChapters      {video: {"duration": seconds, "chapters": [{"time": start, "label": text}, ...]}}

Times are seconds. A ground truth is the description of one annotator: give the files of all annotators as references. A
chapter ends where the next begins, the last at the end of the video. ViTT's rows (JSON lines) are a layout of
`capmeter.captions.layouts`; rows with `start` and `end` are native rows.

>>> document = {"results": {"v7": [{"sentence": "a dog eats", "timestamp": [0, 4.5]}]}}
>>> [row.events.times for row in read(document, "results.json", "candidates", Columns())]
[((0.0, 4.5),)]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from capmeter.captions.columns import Columns
from capmeter.captions.documents import events_in, wrong_form
from capmeter.captions.event_rows import read_events
from capmeter.captions.events import Events
from capmeter.captions.layouts import chapter_times
from capmeter.captions.rows import CaptionRow, Side, image_key, optional_text
from capmeter.core.errors import InputError
from capmeter.core.messages import describe


def read(document: Any, name: str, side: Side, _: Columns) -> Iterator[CaptionRow]:
    """One row per video."""
    videos = events_in(document)
    if videos is None:
        raise wrong_form(document, name, "events")
    for key, value in videos.items():
        video = image_key(key, name, "the video's id")
        location = f"{name}, video {video}"
        events = _read_video(value, location)
        split = optional_text(value.get("subset"), location, "subset") if isinstance(value, Mapping) else None
        row = CaptionRow(location, video, events=events, split=split)
        if side == "candidates":
            row.candidate = events.paragraph
        else:
            row.references, row.reference_events, row.one_of_many = (events.paragraph,), (events,), True
        yield row


def _read_video(value: Any, location: str) -> Events:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return _read_list(value, "timestamp", "sentence", location)
    if not isinstance(value, Mapping):
        raise InputError(f"{location}: {describe(value)}, expected its events, each with times and a sentence")
    if "annotations" in value:
        return _read_list(value["annotations"], "segment", "sentence", location)
    if "chapters" in value:
        items = _objects(value["chapters"], ("time", "label"), location)
        times = chapter_times([item["time"] for item in items], value.get("duration"), location)
        return read_events(times, [item["label"] for item in items], location)
    return read_events(value.get("timestamps"), value.get("sentences"), location)


def _read_list(items: Any, time: str, text: str, location: str) -> Events:
    items = _objects(items, (time, text), location)
    return read_events([item[time] for item in items], [item[text] for item in items], location)


def _objects(items: Any, names: Sequence[str], location: str) -> Sequence[Mapping[str, Any]]:
    """The entries of a list, each checked to be an object with these fields."""
    if isinstance(items, str) or not isinstance(items, Sequence):
        raise InputError(f"{location}: {describe(items)}, expected a list of events")
    for k, item in enumerate(items):
        if not isinstance(item, Mapping) or any(name not in item for name in names):
            raise InputError(f"{location}, event {k}: {describe(item)}, expected an object with {' and '.join(names)}")
    events: Sequence[Mapping[str, Any]] = items
    return events
