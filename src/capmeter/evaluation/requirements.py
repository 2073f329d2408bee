"""Checks before a run that the captions have what the metrics need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.core.messages import format_count
from capmeter.evaluation.base import Metric

_MESSAGES = {  # need: what its absence is called, and what to do
    "references": (
        "have no reference",
        "references; add them, leave these captions out (on_missing='skip', --on-missing skip), or choose metrics that "
        "need none",
    ),
    "events": (
        "have no events in time",
        "events; give results and references whose sentences have a start and an end (docs/video.md), or choose "
        "metrics of whole captions",
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
    ordered_metrics: dict[Metric, None] = {}

    def visit(metric: Metric) -> None:
        if metric not in ordered_metrics:
            for required_metric in metric.required_metrics():
                visit(required_metric)
            ordered_metrics[metric] = None

    for metric in metrics:
        visit(metric)
    return tuple(ordered_metrics)


def is_needed(need: str, metrics: Iterable[Metric]) -> bool:
    """Whether any of these metrics, or of those that they require, needs this of a caption."""
    return any(need in metric.needs for metric in with_required(metrics))


def check_needs(captions: CaptionSet, metrics: Sequence[Metric]) -> None:
    """Checks that the captions have what the metrics need.

    Raises:
        InputError: some captions lack it; the metrics and the first captions are named.
    """
    for need, (lack, advice) in _MESSAGES.items():
        metric_names = [str(metric) for metric in metrics if need in metric.needs]
        lacking_count, first_ids = _count_lacking(captions, need) if metric_names else (0, ())
        if lacking_count:
            subject = f"{', '.join(metric_names)} {'needs' if len(metric_names) == 1 else 'need'}"
            if need == "image" and captions.images_root:
                lack = f"have no picture in {captions.images_root}"
                advice = (
                    "images; files there are found by image id (391895.jpg, COCO_val2014_000000391895.jpg); name them "
                    "so, or name each caption's picture in the field image"
                )
            if lacking_count == 1:
                lack = lack.replace("have ", "has ", 1).replace("name ", "names ", 1)
            captions_lack = f"{format_count(lacking_count, 'caption')} {lack}"
            raise InputError(f"{captions_lack} (the first: {', '.join(first_ids)}), but {subject} {advice}")


def _count_lacking(captions: CaptionSet, need: str) -> tuple[int, Sequence[str]]:
    """The number of captions that lack this, and the first ids."""
    if need == "regions":
        from capmeter.images.regions import region_keys  # half of the start of a run that needs no picture

        is_lacking = np.array([key is None for key in region_keys(captions)], np.bool_)
    elif need == "events":
        is_lacking = np.array(
            [caption_events is None or not caption_events.references for caption_events in captions.events], np.bool_
        )
    else:
        is_lacking = captions.references.lengths == 0 if need == "references" else captions.image_indices < 0
    lacking_rows = np.flatnonzero(is_lacking)
    return len(lacking_rows), [captions.ids[k] for k in lacking_rows[:5].tolist()]
