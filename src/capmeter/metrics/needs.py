"""Checks before a run that the captions have what the metrics need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
        "images; name each caption's picture in the field image, or the folder of the pictures (images_root=, "
        "--images-root), or choose metrics that need none",
    ),
    "regions": (
        "have no regions of their picture",
        "regions; name the folder of .npz files or the LMDB that has them (regions=, --regions), or choose metrics "
        "that need none",
    ),
}


def with_required(metrics: Iterable[Metric]) -> tuple[Metric, ...]:
    """The metrics and everything they require, without duplicates, required metrics first."""
    order: dict[Metric, None] = {}

    def visit(metric: Metric) -> None:
        if metric not in order:
            for each in metric.requires():
                visit(each)
            order[metric] = None

    for metric in metrics:
        visit(metric)
    return tuple(order)


def needed(need: str, metrics: Iterable[Metric]) -> bool:
    """Whether any of these metrics, or of those they require, needs this of a caption."""
    return any(need in metric.needs for metric in with_required(metrics))


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
    """How many captions lack this, and the ids of the first; the regions of a stream are checked part by part."""
    if isinstance(captions, CaptionStream):
        if need == "regions":
            return (0, ()) if captions.regions else (len(captions), ("all of the file",))
        missing = captions.lacking(need)
        return missing.count, missing.first
    if need == "regions":
        from capmeter.images.region_source import region_keys  # half of the start of a run that needs no picture

        lacks = np.array([key is None for key in region_keys(captions)], np.bool_)
    else:
        lacks = captions.references.lengths == 0 if need == "references" else captions.image < 0
    without = np.flatnonzero(lacks)
    return len(without), [captions.ids[k] for k in without[:5].tolist()]
