"""Reading events in time: times and sentences are checked, and rows of single events are joined to videos.

>>> read_events([[4, 9.5], [0, 4]], ["it sleeps", " a dog eats."], "v7").paragraph
'it sleeps a dog eats.'
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from capmeter.captions.events import Events
from capmeter.captions.rows import CaptionRow, caption_text, is_finite
from capmeter.core.errors import InputError
from capmeter.core.messages import describe


def read_events(times: Any, sentences: Any, location: str) -> Events:
    """Checks times and sentences as files hold them.

    Args:
        times: a list of [start, end] in seconds.
        sentences: a list of texts, one for each.
        location: where they stand, for messages.

    Raises:
        InputError: lists of different lengths, or a time that is missing, negative, not finite, or before the start.
    """
    for field_name, field_values in (("timestamps", times), ("sentences", sentences)):
        if isinstance(field_values, str) or not isinstance(field_values, Sequence):
            raise InputError(
                f"{location}: {field_name} is {describe(field_values)}, expected a list with one entry per event"
            )
    if len(times) != len(sentences):
        raise InputError(
            f"{location}: {len(times):,} timestamps for {len(sentences):,} sentences; give each event one of both"
        )
    sentence_texts = tuple(
        caption_text(sentence_text, location, f"sentences[{k}]").strip() for k, sentence_text in enumerate(sentences)
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
    number_names = (
        ("start", "end") if is_time else tuple(f"number {number_index + 1}" for number_index in range(len(value)))
    )
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


def join_events(rows: Iterable[CaptionRow]) -> Iterator[CaptionRow]:
    """Joins rows of single events to one row per video (and system, and annotator); other rows pass unchanged."""
    videos: dict[tuple[str, str | None, str | None], list[CaptionRow]] = {}
    for row in rows:
        if not row.single_event or row.events is None:
            yield row
            continue
        videos.setdefault((row.image_id, row.system, row.annotator), []).append(row)
    for event_rows in videos.values():
        row, event_lists = event_rows[0], [event_row.events for event_row in event_rows if event_row.events is not None]
        is_reference = row.candidate is None and row.reference_events == (row.events,)
        row.events = Events(
            tuple(time for event_list in event_lists for time in event_list.times),
            tuple(text for event_list in event_lists for text in event_list.sentences),
        )
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
