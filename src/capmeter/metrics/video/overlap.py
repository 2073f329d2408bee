"""How much the events of two descriptions of a video overlap in time, or objects in a picture or in space.

    IoU(p, g) = size of p ∩ g / size of p ∪ g,    p and g intervals in seconds, or boxes; 0 where both have no size

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
from capmeter.metrics.notes import note_captions

Floats = npt.NDArray[np.float64]
Times = Sequence[tuple[float, ...]]
MAX_PAIRS = 1_000_000
"""Pairs of events of one video that are compared: a thousand events against a thousand."""


def overlap_iou(candidate: Times, reference: Times) -> Floats:
    """The overlap of each event of one side with each of the other: (candidate events, reference events), 0 to 1.

    Raises:
        InputError: intervals and boxes, or flat boxes and boxes in space, are mixed.
    """
    sizes = {len(each) for each in (*candidate, *reference)}
    if len(sizes) > 1:
        raise InputError(f"boxes of {' and '.join(map(str, sorted(sizes)))} numbers in one scene; give all as many")
    half = next(iter(sizes), 2) // 2
    ours = np.array(candidate, np.float64).reshape(len(candidate), 1, 2 * half)
    theirs = np.array(reference, np.float64).reshape(1, len(reference), 2 * half)
    low, high = np.maximum(ours[..., :half], theirs[..., :half]), np.minimum(ours[..., half:], theirs[..., half:])
    both = np.prod(np.maximum(high - low, 0.0), axis=-1)
    size, other = (np.prod(boxes[..., half:] - boxes[..., :half], axis=-1) for boxes in (ours, theirs))
    union = size + other - both
    if half == 1:  # where two intervals overlap, their hull: one rounding less
        hull = np.maximum(ours[..., 1], theirs[..., 1]) - np.minimum(ours[..., 0], theirs[..., 0])
        union = np.minimum(hull, size + other)
    return np.where(union > 0, both / np.where(union > 0, union, 1.0), 0.0)


def refuse_too_many_pairs(part: CaptionSet) -> None:
    """Raises where a video has more pairs of events than can be compared."""
    for id, events in zip(part.ids, part.events, strict=True):
        if events is None:
            continue
        most = max((len(each.times) for each in events.references), default=0)
        if len(events.candidate.times) * most > MAX_PAIRS:
            raise InputError(
                f"video {id}: {len(events.candidate.times):,} events in the results and {most:,} in a reference are "
                f"more than {MAX_PAIRS:,} pairs; leave out repeated events"
            )


def note_events(part: CaptionSet) -> dict[str, list[str]]:
    """Notes the videos without candidate events, and those with one of no length or area, which overlaps nothing."""
    candidates = [() if events is None else events.candidate.times for events in part.events]
    empty = np.array([not times for times in candidates], np.bool_)
    instant = np.array([any(_is_empty(span) for span in times) for times in candidates], np.bool_)
    return note_captions(part, "no events", empty) | note_captions(part, "event of zero length", instant)


def _is_empty(span: Sequence[float]) -> bool:
    """Whether an interval has no length, or a box none along an axis."""
    half = len(span) // 2
    return any(low == high for low, high in zip(span[:half], span[half:], strict=True))
