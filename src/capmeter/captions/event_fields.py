"""Reading events in time, which are recognised by their times, whatever their texts are called.

    one video     [{"timestamp": [start, end], "sentence": text}, …]      also segment, start and end; caption, text …
                  {"timestamps": [[start, end], …], "sentences": [text]}  also a list of such objects, one per annotator
                  {"annotations": [{"segment": …, "sentence": …}]}, {"duration": …, "chapters": [{"time": start, …}]}
    one event     {"image_id": …, "timestamp": [start, end], "caption": text} or with start and end, or a box

Times are seconds. A chapter ends where the next begins, the last at the end of the video.

>>> read_video([{"timestamp": [4, 9.5], "caption": "it sleeps"}, {"timestamp": [0, 4], "caption": "it eats"}], "v7")
(Events(times=((4.0, 9.5), (0.0, 4.0)), sentences=('it sleeps', 'it eats')),)
>>> is_video([{"segment": [0, 4], "text": "it eats"}]), is_video([]), is_video(["a dog"])
(True, None, False)
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from capmeter.captions.caption_set import Events
from capmeter.captions.layouts import NAMES, SHORT_NAMES, suggest_names
from capmeter.captions.rows import CaptionRow, caption_text, decode_list, is_finite
from capmeter.core.errors import InputError
from capmeter.core.json_text import decode_json
from capmeter.core.messages import describe

TIME_NAMES: list[str] = NAMES["time"]
TEXT_NAMES: list[str] = NAMES["text"]
EVENT_NAMES = frozenset((*TIME_NAMES, *NAMES["events"]))
"""Names by which a record may hold events."""
_EVENT_LISTS = (*NAMES["events"], *NAMES["other events"])
_LONE_TIMES = (*NAMES["start"], *NAMES["end"], "timestamp", *NAMES["frames"])  # `time` is also what a program took
TIMED_NAMES = frozenset((*_LONE_TIMES, *TIME_NAMES, *_EVENT_LISTS))
"""Names of which records with events have one."""
EVENT_TEXTS = (*TEXT_NAMES, *SHORT_NAMES, *NAMES["titles"])
"""Names of the text of an event, in the order of preference."""
_TEXT_FIELDS = {*TEXT_NAMES, *SHORT_NAMES, "prediction", "error"}
_LATEST, _DATE = 1e7, re.compile(r"\d{4}-\d\d")  # seconds, of any video
_STARTS = frozenset(NAMES["start"])
_LIST_NAMES = {*TIME_NAMES, *TEXT_NAMES, *_STARTS, *NAMES["end"]}
_CLOCK = r"[ \t]*((?:\d{1,9}:){0,2}\d{1,9}(?:\.\d*|,\d{3})?)(?:[ \t]*(?:s|sec|seconds))?[ \t]*"
_SPAN_TEXT = re.compile(rf"[\[(]?(?:from )?{_CLOCK}(?:-->|-|–|—|~|,|to){_CLOCK}[\])]?", re.ASCII | re.IGNORECASE)


def read_events(
    times: Any, sentences: Any, location: str, names: Sequence[str] = ("timestamps", "sentences")
) -> Events:
    """Checks times and sentences as files hold them.

    Args:
        times: a list of [start, end] in seconds, or of boxes.
        sentences: a list of texts, one for each.
        location: where they stand, for messages.
        names: what the file calls both, for messages.

    Raises:
        InputError: lists of different lengths, or a time that is missing, negative, not finite, or before the start.
    """
    for field_name, field_values in zip(names, (times, sentences), strict=True):
        if isinstance(field_values, str) or not isinstance(field_values, Sequence):
            raise InputError(
                f"{location}: {field_name} is {describe(field_values)}, expected a list with one entry per event"
            )
    if len(times) != len(sentences):
        raise InputError(
            f"{location}: {len(times):,} {names[0]} for {len(sentences):,} {names[1]}; give each event one of both"
        )
    sentence_texts = tuple(
        caption_text(sentence_text, location, f"{names[1]}[{k}]").strip() for k, sentence_text in enumerate(sentences)
    )
    return Events(
        tuple(_span(event_time, f"{location}, event {k}") for k, event_time in enumerate(times)), sentence_texts
    )


def _span(value: Any, location: str) -> tuple[float, ...]:
    """[start, end] in seconds, or a box of four or six numbers."""
    if isinstance(value, str) or not isinstance(value, Sequence) or len(value) not in (2, 4, 6):
        raise InputError(
            f"{location}: {describe(value)}, expected [start, end] in seconds, or a box of four (in space six) numbers"
        )
    half, is_time = len(value) // 2, len(value) == 2
    number_names = ("start", "end") if is_time else tuple(f"number {k + 1}" for k in range(len(value)))
    value = [_number_of(number) for number in value]
    for number_name, number in zip(number_names, value, strict=True):
        if not is_finite(number) or (is_time and number < 0):
            expected_form = "seconds from 0 on" if is_time else "a finite number"
            raise InputError(f"{location}: its {number_name} is {describe(number)}, expected {expected_form}")
    numbers = tuple(map(float, value))
    if is_time and numbers[1] < numbers[0]:
        raise InputError(
            f"{location}: it ends at {numbers[1]:g} s, before its start at {numbers[0]:g} s; are the two swapped?"
        )
    if any(upper < lower for lower, upper in zip(numbers[:half], numbers[half:], strict=True)):
        raise InputError(f"{location}: the box {list(value)} has its upper corner first; expected [x1, y1, x2, y2]")
    return numbers


def _number_of(value: Any) -> Any:
    """A number that a table or a program writes as text, or the seconds of a clock's; other values unchanged.

    >>> _number_of("7.5 s"), _number_of("1:00:07.5"), _number_of("00:00:07,500"), _number_of("soon")
    (7.5, 3607.5, 7.5, 'soon')
    """
    if hasattr(value, "total_seconds"):  # a duration of Excel, Parquet or pandas
        return value.total_seconds()
    value = str(value) if hasattr(value, "minute") and not hasattr(value, "year") else value  # a clock's time of these
    if isinstance(value, str) and value.count(":") < 4:
        clock = re.fullmatch(_CLOCK, value, re.ASCII | re.IGNORECASE)
        parts = (clock[1].replace(",", ".") if clock and ":" in value else clock[1] if clock else value).split(":")
        with suppress(ValueError):
            return sum(float(part) * 60**k for k, part in enumerate(reversed(parts)))
    return value


def lone_time(records: Sequence[Mapping[Any, Any]]) -> str:
    """The name of numbers of records that may be the starts, ends or frames of events without the other; "" without.

    >>> lone_time([{"start": 4.5, "caption": "it sleeps"}]), lone_time([{"timestamp": 1.7e9, "caption": "it sleeps"}])
    ('start', '')
    """
    return next((name for name in _LONE_TIMES if any(is_finite(_number_of(r.get(name)), _LATEST) for r in records)), "")


def is_video(value: Any) -> bool | None:
    """Whether a value is the events of one video; None where it is empty, which a video without events is, too."""
    if isinstance(value, Mapping):
        is_listed = "chapters" in value or {"subset", "annotations"} <= value.keys()
        is_event = event_time(value) is not None and any(name in value for name in EVENT_TEXTS)
        if is_listed or is_event or find_lists(value) is not None:
            return True
        return False if value.keys() & _TEXT_FIELDS or "references" in value else None
    if value is None or (isinstance(value, list) and not value):
        return None
    is_list = isinstance(value, list) and isinstance(value[0], Mapping)
    return is_list and any(isinstance(entry, Mapping) and is_video(entry) is True for entry in value)


def event_time(event: Mapping[Any, Any]) -> Any:
    """The time or box of one event, unchecked; None if it has none."""
    for name in TIME_NAMES:
        time = event.get(name)
        if isinstance(time, str) and (match := _SPAN_TEXT.fullmatch(time.strip())) is not None:
            return list(match.groups())
        if isinstance(time, Mapping) and (names := time_names(time)) is not None:
            time = [time[each] for each in names]
        if _is_span(time):
            return time
    if (names := time_names(event)) is not None:
        time = [event[name] for name in names]
        if names[0] == "start" or not all(map(_is_date, time)):
            return time
    return event["box"] if _is_span(event.get("box")) else None


def _is_date(value: Any) -> bool:
    """Whether this is a date, an object, or milliseconds since 1970: when a program ran."""
    return isinstance(value, Mapping) or bool(_DATE.match(str(value))) or (is_finite(value) and value > _LATEST)


def time_names(names: Collection[Any]) -> tuple[str, str] | None:
    """The names of start and end among names, whatever a program calls the two; None without either.

    >>> time_names({"onset": 0.0, "offset": 1.5}), time_names(["start_time", "caption"])
    (('onset', 'offset'), None)
    """
    if _STARTS.isdisjoint(names):  # of nearly all rows
        return None
    start = next((name for name in NAMES["start"] if name in names), None)
    end = next((name for name in NAMES["end"] if name in names), None)
    return None if start is None or end is None else (start, end)


def find_lists(
    record: Mapping[Any, Any], known: Collection[str] = (), texts: Iterable[str] = ()
) -> tuple[Any, Any, tuple[str, str]] | None:
    """The lists of times and texts in a record, and their names; or a list of event objects, and "" as name of texts.

    Args:
        record: of a video.
        known: the names that hold lists of event objects in other records.
        texts: the names of captions: a record with one of its own has no events in objects.
    """
    cells = {name: value for name, value in record.items() if isinstance(value, str) and name in _LIST_NAMES}
    starts = {name: cells[name][:2] for name in cells.keys() & {*TIME_NAMES, *_STARTS}}
    if any(start in ("[[", "[(", "[]") or (start[:1] == "[" and name in _STARTS) for name, start in starts.items()):
        for name, text in cells.items():  # of a table
            place, spans = "the events", text.replace("(", "[").replace(")", "]")
            cells[name] = decode_list(text, place, name) if name in TEXT_NAMES else decode_json(spans, place)
        record = {**record, **cells}
    for time_name in TIME_NAMES:
        times = record.get(time_name)
        if isinstance(times, list | tuple) and (not times or not isinstance(times[0], Mapping | str)):
            text_names = [name for name in TEXT_NAMES if isinstance(record.get(name), list)]
            text_names += ["sentences"] * (time_name == "timestamps")
            if text_names and not _is_span(times):
                return times, record.get(text_names[0]), (time_name, text_names[0])
    if (names := time_names(record)) is not None and all(isinstance(record[name], list) for name in names):
        text_name = next((name for name in TEXT_NAMES if isinstance(record.get(name), list)), "captions")
        return list(zip_longest(*(record[name] for name in names))), record.get(text_name), (names[0], text_name)
    own = [text[0] if isinstance(text := record[n], list) and text else text for n in texts if n in record]
    has_text = any(isinstance(text, str | None) for text in own)
    for list_name in () if has_text else _EVENT_LISTS:
        entries = record.get(list_name)
        objects = [entry for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list) else []
        if any(_start_of(entry) is not None for entry in objects) or (list_name in known and list_name in record):
            return [] if entries is None else entries, None, (list_name, "")
    return None


def read_video(value: Any, location: str) -> tuple[Events, ...]:
    """The events of one video, as one or several annotators describe them; a video without any has none."""
    if isinstance(value, str) or not isinstance(value, Mapping | Sequence | None):
        raise InputError(f"{location}: {describe(value)}, expected its events, each with times and a sentence")
    if not isinstance(value, Mapping):
        entries: Any = value or ()
        if any(isinstance(entry, Mapping) and find_lists(entry) is not None for entry in entries):  # of annotators
            return tuple(events for k, entry in enumerate(entries) for events in read_video(entry, f"{location}[{k}]"))
        return (_read_objects(entries, None, location),)
    if (lists := find_lists(value)) is not None:
        return (read_lists(lists, value.get("duration"), location),)
    if event_time(value) is not None:
        return (_read_objects([value], None, location),)
    entries = [value[name] for name in ("chapters", "annotations") if name in value]
    if not entries and value.keys() & _TEXT_FIELDS:
        raise InputError(f"{location}: {describe(value)}, expected its events, each with times and a sentence")
    return (_read_objects(entries[0] if entries else (), value.get("duration"), location),)


def read_lists(lists: tuple[Any, Any, tuple[str, str]], duration: Any, location: str) -> Events:
    """The events of lists.

    Args:
        lists: what `find_lists` gives.
        duration: of the video, with which the last event ends where events have only starts.
        location: for messages.
    """
    times, texts, names = lists
    if not names[1]:
        return _read_objects(times, duration, f"{location}, {names[0]}")
    return read_events(times, texts, location, names)


def _read_objects(entries: Any, duration: Any, location: str) -> Events:
    """The events of a list of objects; those that have only starts end where the next begins."""
    if isinstance(entries, str) or not isinstance(entries, Sequence):
        raise InputError(f"{location}: {describe(entries)}, expected a list of events")
    times, texts = [], []
    for k, entry in enumerate(entries):
        start = _start_of(entry) if isinstance(entry, Mapping) else None
        text_name = next((name for name in EVENT_TEXTS if name in entry), None) if isinstance(entry, Mapping) else None
        if start is None or text_name is None:
            fields = entry if isinstance(entry, Mapping) and start is None else {}
            wrong_times = (f"its {name} is {describe(fields[name])}" for name in TIME_NAMES if name in fields)
            raise InputError(
                f"{location}, event {k}: {next(wrong_times, describe(entry))}, expected an object with its time "
                "(timestamp: [start, end], segment, or start and end, in seconds) and its sentence"
            )
        times.append(start)
        texts.append(caption_text(entry[text_name], f"{location}, event {k}", text_name))
    if times and not isinstance(times[0], list | tuple):
        duration = _number_of(duration)
        if not is_finite(duration):
            raise InputError(
                f"{location}: it has the starts of its events but no duration, so that the last one has no end; add "
                '"duration": seconds'
            )
        times = [[start, end] for start, end in zip(times, [*times[1:], duration], strict=True)]
    counts = [entry["pred_event_count"] for entry in entries if is_finite(entry.get("pred_event_count"))]
    return replace(read_events(times, texts, location), predicted_count=max(counts, default=None))


def _start_of(entry: Mapping[Any, Any]) -> Any:
    """The time of an event, or its box; where it has only a start, that in seconds (chapters, and ViTT's tags in
    milliseconds)."""
    time = event_time(entry)
    if time is None and all(is_finite(entry.get(name)) for name in ("x", "y", "width", "height")):  # Visual Genome
        return [entry["x"], entry["y"], entry["x"] + entry["width"], entry["y"] + entry["height"]]
    if time is None and "time" in entry:
        return entry["time"]
    if time is None and "tag" in entry and is_finite(entry.get("timestamp")):
        return entry["timestamp"] / 1000
    return time


def find_events(
    record: Mapping[Any, Any],
    values: Mapping[str, Any],
    candidate_names: Sequence[str],
    reference_names: Sequence[str],
    known: Collection[str],
    location: str,
) -> tuple[Events, bool, Collection[str]] | None:
    """The events of a row, whether they are one of several of its video, and the names of their lists; None without.

    Args:
        record, values: the row, and its fields that occur once.
        candidate_names, reference_names: the names that hold its texts.
        known: as in `find_lists`.
        location: for messages.

    Raises:
        InputError: a time is not as expected.
    """
    if (lists := find_lists(record, known, (*candidate_names, *reference_names))) is not None:
        return read_lists(lists, record.get("duration"), location), False, lists[2]
    time = decode_json(box, f"{location}, column box") if isinstance(box := values.get("box"), str) else box
    if time is None:
        time = [values["start"], values["end"]] if {"start", "end"} <= values.keys() else event_time(record)
    if time is not None:
        single_texts = [name for name in (*reference_names, *EVENT_TEXTS) if isinstance(record.get(name), str)]
        text_names = (*candidate_names, *single_texts, *reference_names, *EVENT_TEXTS)
        text_name = next((each for each in text_names if each in record), None)
        text = record.get(text_name or "")
        if isinstance(text, list | tuple) and text_name in (*candidate_names, *reference_names):
            if len(text) != 1:  # several texts of one clip
                return None
            text = text[0]
        if text_name is None:
            raise InputError(f"{location}: its event has no text; --column says which of {suggest_names(record)} it is")
        used_names = [text_name] if text_name in reference_names else []
        text = caption_text(text, location, text_name).strip()
        return Events((_span(time, location),), (text,)), True, used_names
    return None


def _is_span(value: Any) -> bool:
    """Whether this is a list of two, four or six values, rather than a list of lists."""
    if not isinstance(value, list | tuple) or len(value) not in (2, 4, 6):
        return False
    return not any(isinstance(number, list | tuple | Mapping) for number in value)


def join_events(rows: Iterable[CaptionRow]) -> Iterator[CaptionRow]:
    """Joins rows of single events to one row per video (and system, and annotator); other rows pass unchanged, and each
    reference stays by itself where those of any video have one time, as captions of clips."""
    videos: dict[tuple[str, str | None, str | None], list[CaptionRow]] = {}
    for row in rows:
        if not row.single_event or row.events is None:
            yield row
            continue
        videos.setdefault((row.image_id, row.system, row.annotator), []).append(row)
    annotated = {(image_id, system) for image_id, system, annotator in videos if annotator is not None}
    for (image_id, system, annotator), (row, *_) in videos.items():
        if annotator is None and (image_id, system) in annotated:
            raise InputError(
                f"{row.location}: no annotator, whom other events of {image_id!a} have; add it, or leave out the row"
            )
    event_lists = list(videos.values())
    several = (rows for rows in event_lists if len(rows) > 1 and rows[0].candidate is None)
    times = [{row.events.times for row in rows if row.events is not None} for rows in several]
    if times and all(len(each) == 1 and len(next(iter(each))[0]) == 2 for each in times):  # captions of clips
        event_lists = [[row] for rows in event_lists for row in rows]
    for event_rows in event_lists:
        row, events = event_rows[0], [event_row.events for event_row in event_rows if event_row.events is not None]
        is_reference = row.candidate is None and row.reference_events == (row.events,)
        row.events = Events(tuple(each.times[0] for each in events), tuple(each.sentences[0] for each in events))
        if is_reference:
            row.references, row.reference_events = (row.events.paragraph,), (row.events,)
        else:
            row.references, row.reference_events = _references_of_video(event_rows)
        if row.candidate is not None:
            row.id, row.candidate = None, row.events.paragraph
        yield row


def _references_of_video(event_rows: list[CaptionRow]) -> tuple[tuple[str, ...] | None, tuple[Events, ...]]:
    """The references of a video, which rows of its events repeat or leave out."""
    video_references = event_rows[0].references, event_rows[0].reference_events
    for row in event_rows[1:]:
        if row.references and not video_references[0]:
            video_references = row.references, row.reference_events
        elif row.references and (row.references, row.reference_events) != video_references:
            raise InputError(
                f"{row.location}: other references than an earlier event of {row.image_id!a}; repeat all references "
                "of the video beside each event, or give them in a file of their own, a row for each with start and end"
            )
    return video_references
