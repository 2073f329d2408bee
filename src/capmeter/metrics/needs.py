"""Checks before a run that the captions have what the metrics need."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from capmeter.captions.model import CaptionSet
from capmeter.captions.streaming import CaptionStream
from capmeter.errors import InputError
from capmeter.metrics.base import Metric

_SAID = {
    "references": (
        "have no reference",
        'references; give them, drop these captions (on_missing="skip"), or choose metrics that need none',
    ),
    "image": (
        "name no picture",
        "images; name each caption's picture in the field image, or choose metrics that need none",
    ),
    "regions": ("have no regions of their picture", "regions; choose metrics that need none"),
}


def check_needs(captions: CaptionSet | CaptionStream, metrics: Sequence[Metric]) -> None:
    """Raises an `InputError` that names the metrics and the first captions that lack what these need.

    For a stream the whole file is checked first, and images are named instead of captions.
    """
    for need, (lack, why) in _SAID.items():
        needing = [str(metric) for metric in metrics if need in metric.needs]
        if not needing:
            continue
        count, first = _lacking(captions, need)
        if count:
            named = f"{', '.join(needing)} {'needs' if len(needing) == 1 else 'need'}"
            raise InputError(f"{count:,} captions {lack} (the first: {', '.join(first)}), but {named} {why}")


def _lacking(captions: CaptionSet | CaptionStream, need: str) -> tuple[int, Sequence[str]]:
    """How many captions lack this, and the ids of the first; no caption format has regions."""
    if isinstance(captions, CaptionStream) and need != "regions":
        missing = captions.lacking(need)
        return missing.count, missing.first
    if isinstance(captions, CaptionStream):
        return len(captions), ["all of the file"]
    lacks = {"references": captions.references.lengths == 0, "image": captions.image < 0}
    without = np.flatnonzero(lacks.get(need, np.ones(len(captions), np.bool_)))
    return len(without), [captions.ids[k] for k in without[:5].tolist()]
