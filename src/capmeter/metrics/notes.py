"""Notes that metrics share: which captions a remark applies to, as ids by reason."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from capmeter.captions.caption_set import CaptionSet
from capmeter.captions.text_checks import is_blank

Flags = NDArray[np.bool_]


def note_captions(part: CaptionSet, reason: str, mask: Flags) -> dict[str, list[str]]:
    """The note of the captions where a mask (captions,) is true; empty if there are none."""
    caption_indices = np.flatnonzero(mask).tolist()
    return {reason: [part.ids[caption_index] for caption_index in caption_indices]} if caption_indices else {}


def note_truncated(
    part: CaptionSet, truncated: Flags, truncated_references: Flags | None = None
) -> dict[str, list[str]]:
    """The note of captions that were too long for an encoder.

    Args:
        part: the captions.
        truncated: which candidates were truncated, (captions,).
        truncated_references: which references were, flat as `part.references.values`.
    """
    truncated_captions = truncated.copy()
    if truncated_references is not None:
        np.logical_or.at(truncated_captions, part.references.rows, truncated_references)
    return note_captions(part, "truncated", truncated_captions)


def empty_candidates(part: CaptionSet) -> Flags:
    """Which candidates have nothing visible (white space, zero-width characters …), (captions,)."""
    return np.array([is_blank(part.pool[k]) for k in part.candidates.tolist()], np.bool_)
