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
    for video_key, video_entry in videos.items():
        video_id = image_key(video_key, name, "the video's id")
        location = f"{name}, video {video_id}"
        events = _read_video(video_entry, location)
        split = (
            optional_text(video_entry.get("subset"), location, "subset") if isinstance(video_entry, Mapping) else None
        )
        row = CaptionRow(location, video_id, events=events, split=split)
        if side == "candidates":
            row.candidate = events.paragraph
        else:
            row.references, row.reference_events, row.one_of_many = (events.paragraph,), (events,), True
        yield row


def _read_video(video_entry: Any, location: str) -> Events:
    if isinstance(video_entry, Sequence) and not isinstance(video_entry, str):
        return _read_list(video_entry, "timestamp", "sentence", location)
    if not isinstance(video_entry, Mapping):
        raise InputError(f"{location}: {describe(video_entry)}, expected its events, each with times and a sentence")
    if "annotations" in video_entry:
        return _read_list(video_entry["annotations"], "segment", "sentence", location)
    if "chapters" in video_entry:
        chapter_entries = _objects(video_entry["chapters"], ("time", "label"), location)
        event_times = chapter_times([item["time"] for item in chapter_entries], video_entry.get("duration"), location)
        return read_events(event_times, [item["label"] for item in chapter_entries], location)
    return read_events(video_entry.get("timestamps"), video_entry.get("sentences"), location)


def _read_list(event_entries: Any, time_field: str, text_field: str, location: str) -> Events:
    event_entries = _objects(event_entries, (time_field, text_field), location)
    return read_events(
        [item[time_field] for item in event_entries], [item[text_field] for item in event_entries], location
    )


def _objects(event_entries: Any, names: Sequence[str], location: str) -> Sequence[Mapping[str, Any]]:
    """The entries of a list, each checked to be an object with these fields."""
    if isinstance(event_entries, str) or not isinstance(event_entries, Sequence):
        raise InputError(f"{location}: {describe(event_entries)}, expected a list of events")
    for event_index, item in enumerate(event_entries):
        if not isinstance(item, Mapping) or any(field_name not in item for field_name in names):
            raise InputError(
                f"{location}, event {event_index}: {describe(item)}, expected an object with {' and '.join(names)}"
            )
    events: Sequence[Mapping[str, Any]] = event_entries
    return events
