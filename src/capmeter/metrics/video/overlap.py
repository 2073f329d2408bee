"""How much the events of two descriptions of a video overlap in time, or objects in a picture or in space.

    IoU(p, g) = size of p ∩ g / size of p ∪ g,    p and g intervals in seconds, or boxes

0 where both have no size, but 1 for a box and itself, however flat.

>>> overlap_iou(((0.0, 10.0),), ((5.0, 15.0), (20.0, 30.0))).round(3).tolist()
[[0.333, 0.0]]
>>> overlap_iou(((0.0, 0.0, 2.0, 2.0),), ((1.0, 0.0, 3.0, 2.0),)).round(3).tolist()
[[0.333]]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.evaluation.base import note_captions
from capmeter.stats.ratios import ratio

Floats = npt.NDArray[np.float64]
Times = Sequence[tuple[float, ...]]
MAX_PAIRS = 1_000_000
"""Pairs of events of one video that are compared: a thousand events against a thousand."""


def overlap_iou(candidate: Times, reference: Times) -> Floats:
    """The overlap of each event of one side with each of the other: (candidate events, reference events), 0 to 1.

    Raises:
        InputError: intervals and boxes, or flat boxes and boxes in space, are mixed.
    """
    box_dimensions = {len(event_times) for event_times in (*candidate, *reference)}
    if len(box_dimensions) > 1:
        raise InputError(
            f"boxes of {' and '.join(map(str, sorted(box_dimensions)))} numbers in one scene; give all as many"
        )
    half = next(iter(box_dimensions), 2) // 2
    boxes = np.array([*candidate, *reference], np.float64).reshape(-1, 2, half)
    exponents = np.frexp(np.abs(boxes).max(axis=(0, 1), initial=0.0))[1]
    boxes = np.ldexp(boxes, -exponents).reshape(-1, 2 * half)  # exact, and sizes neither overflow nor vanish
    candidate_boxes, reference_boxes = boxes[: len(candidate), None], boxes[None, len(candidate) :]
    low, high = (
        np.maximum(candidate_boxes[..., :half], reference_boxes[..., :half]),
        np.minimum(candidate_boxes[..., half:], reference_boxes[..., half:]),
    )
    intersection = np.prod(np.maximum(high - low, 0.0), axis=-1)
    candidate_size, reference_size = (
        np.prod(boxes[..., half:] - boxes[..., :half], axis=-1) for boxes in (candidate_boxes, reference_boxes)
    )
    union = candidate_size + reference_size - intersection
    if half == 1:  # where two intervals overlap, their hull: one rounding less
        hull = np.maximum(candidate_boxes[..., 1], reference_boxes[..., 1]) - np.minimum(
            candidate_boxes[..., 0], reference_boxes[..., 0]
        )
        union = np.minimum(hull, candidate_size + reference_size)
    overlap = ratio(intersection, union)
    is_same_box = (candidate_boxes == reference_boxes).all(axis=-1) & (half > 1)
    return np.where(is_same_box, 1.0, overlap)


def refuse_too_many_pairs(part: CaptionSet) -> None:
    """Raises where a video has more pairs of events than can be compared."""
    for video_id, events in zip(part.ids, part.events, strict=True):
        if events is None:
            continue
        max_events = max((len(reference_events.times) for reference_events in events.references), default=0)
        if len(events.candidate.times) * max_events > MAX_PAIRS:
            raise InputError(
                f"video {video_id}: {len(events.candidate.times):,} events in the results and {max_events:,} in a "
                f"reference are more than {MAX_PAIRS:,} pairs; leave out repeated events"
            )


def note_events(part: CaptionSet) -> dict[str, list[str]]:
    """Notes the videos without candidate events, and those with one of no length or area, which overlaps nothing."""
    candidate_times = [() if events is None else events.candidate.times for events in part.events]
    has_no_events = np.array([not event_times for event_times in candidate_times], np.bool_)
    has_empty_event = np.array(
        [any(_is_empty(span) for span in event_times) for event_times in candidate_times], np.bool_
    )
    return note_captions(part, "no events", has_no_events) | note_captions(
        part, "event of zero length", has_empty_event
    )


def _is_empty(span: Sequence[float]) -> bool:
    """Whether an interval has no length, or a box none along an axis."""
    half = len(span) // 2
    return any(low == high for low, high in zip(span[:half], span[half:], strict=True))
