"""How much the events of two descriptions of a video overlap in time, or objects in a picture or in space.

    IoU(p, g) = size of p ∩ g / size of p ∪ g,    p and g intervals in seconds, or boxes

0 where both have no size, but 1 for a box and itself, however flat.

>>> overlap_iou(((0.0, 10.0),), ((5.0, 15.0), (20.0, 30.0))).round(3).tolist()
[[0.333, 0.0]]
>>> overlap_iou(((0.0, 0.0, 2.0, 2.0),), ((1.0, 0.0, 3.0, 2.0),)).round(3).tolist()
[[0.333]]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import CaptionSet, VideoEvents
from capmeter.core.errors import InputError
from capmeter.evaluation.base import Metric, note_captions
from capmeter.stats.ratios import ratio

Floats = npt.NDArray[np.float64]
Times = Sequence[tuple[float, ...]]
MAX_PAIRS = 1_000_000
"""Pairs of events that are compared at once, and of one video at all: a thousand events against a thousand."""
RELEASED_EPSILON = 1e-8
"""What the released programs add to the union: events that overlap by half have an IoU just below .5."""


class EventMetric(Metric):
    """The base of metrics that match events in time, or boxes."""

    PART_SIZE: ClassVar[int] = 512
    MICROSECONDS: ClassVar[float] = 2000.0
    needs: ClassVar[frozenset[str]] = frozenset({"references", "events"})
    FAMILY: ClassVar[str] = "Events in time"
    MISLEADS: ClassVar[str] = (
        "Measures where borders were put as much as what was said: people reach 5 of 100 by SODA_c against each "
        "other. Scores with given events and with a system's own are not comparable."
    )
    GUIDE: ClassVar[str] = "docs/video.md"


def overlap_iou(candidate: Times, reference: Times, epsilon: float = 0.0) -> Floats:
    """The overlap of each event of one side with each of the other: (candidate events, reference events), 0 to 1.

    Args:
        candidate, reference: intervals, or boxes.
        epsilon: what is added to the union.

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
    overlap = ratio(intersection, union + np.ldexp(epsilon, -int(exponents.sum())))
    is_same_box = (candidate_boxes == reference_boxes).all(axis=-1) & (half > 1)
    return np.where(is_same_box, 1.0, overlap)


def video_blocks(part: CaptionSet) -> Iterator[list[tuple[int, VideoEvents]]]:
    """The videos with their rows, as many at a time as have `MAX_PAIRS` pairs of events, of all annotators.

    Raises:
        InputError: one video has more.
    """
    block, block_pairs = list[tuple[int, VideoEvents]](), 0
    for row, video in enumerate(part.events):
        if video is None:
            continue
        reference_count = sum(len(each.times) for each in video.references)
        pair_count = len(video.candidate.times) * reference_count
        if pair_count > MAX_PAIRS:
            raise InputError(
                f"video {part.ids[row]}: {len(video.candidate.times):,} events in the results and {reference_count:,} "
                f"in the references are more than {MAX_PAIRS:,} pairs; leave out repeated events"
            )
        if block_pairs + pair_count > MAX_PAIRS:
            yield block
            block, block_pairs = [], 0
        block.append((row, video))
        block_pairs += pair_count
    if block:
        yield block


def note_events(part: CaptionSet) -> dict[str, list[str]]:
    """Notes the videos without candidate events, and those with one of no length or area, which overlaps nothing."""
    candidate_times = [() if events is None else events.candidate.times for events in part.events]
    has_empty_event = [  # an interval without length, or a box without any along an axis
        any(low == high for span in times for low, high in zip(span, span[len(span) // 2 :], strict=False))
        for times in candidate_times
    ]
    notes = note_captions(part, "no events", np.array([not times for times in candidate_times], np.bool_))
    return notes | note_captions(part, "event of zero length", np.array(has_empty_event, np.bool_))
