"""Precision and recall of event proposals: whether the events were found at all, whatever is said of them.

At each threshold t, an event of the results is right if it overlaps a reference event with IoU > t, and a reference
event is found if an event of the results overlaps it so:

    precision at t = right events / candidate events,    recall at t = found events / reference events

each with the annotator for whom it is largest, and averaged over videos. F1 at t is the harmonic mean of these two
averages. The score is F1 averaged over the thresholds. Range 0 to 1. Parts: precision and recall, averaged over the
thresholds, and at each of them. Videos without results are left out; `as_released=true` counts them 0, reads the first
thousand events of a video, and adds 1e-8 to the union, as the released code does (`dense`).

>>> Proposals(iou=(0.5,)).from_sums(np.array([1.5, 1.0]), np.float64(2))["score"].round(3).item()  # .75 and .5
0.6

R. Krishna, K. Hata, F. Ren, L. Fei-Fei, J. C. Niebles. Dense-Captioning Events in Videos. ICCV 2017.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Annotated, ClassVar

import numpy as np

from capmeter.captions.caption_set import CaptionSet, VideoEvents
from capmeter.evaluation.base import AdditiveMetric, Floats, Measurement, RunContext
from capmeter.metrics.video.dense import RELEASED_EVENTS, THRESHOLDS, check_thresholds
from capmeter.metrics.video.overlap import RELEASED_EPSILON, EventMetric, note_events, overlap_iou, video_blocks
from capmeter.stats.ratios import f1


@dataclass(frozen=True, kw_only=True)
class Proposals(EventMetric, AdditiveMetric):
    """Precision, recall and F1 of events in time.

    Args:
        iou: the thresholds of overlap.
        as_released: videos without results count 0, as in the released code.
    """

    NAME: ClassVar[str] = "proposals"
    SUMMARY: ClassVar[str] = "F1, precision and recall of events in time, whatever their captions"
    MICROSECONDS: ClassVar[float] = 200.0
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"P_t = \frac{|\{ p : \max_g \text{IoU}(p, g) > t \}|}{n}, \quad R_t = \frac{|\{ g : \max_p \text{IoU}(p, "
        r"g) > t \}|}{m}, \quad \text{score} = \frac{1}{|T|} \sum_{t \in T} \frac{2 P_t R_t}{P_t + R_t}",
    )

    iou: Annotated[tuple[float, ...], "thresholds of overlap in time"] = THRESHOLDS
    as_released: Annotated[bool, "videos without results count 0"] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_thresholds(self.name, self.iou)

    @property
    def counts_absent(self) -> bool:
        """As released."""
        return self.as_released

    @property
    def columns(self) -> tuple[str, ...]:
        """Precision at each threshold, then recall."""
        return tuple(
            f"{column_name} at {threshold:g}" for column_name in ("precision", "recall") for threshold in self.iou
        )

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """Precision and recall of each video at each threshold."""
        videos = chain.from_iterable(video_blocks(part))
        video_rows = [_precision_and_recall(video, self.iou, self.as_released) for _, video in videos]
        return Measurement(np.array(video_rows), note_events(part))

    def from_sums(self, sums: Floats, counts: Floats) -> dict[str, Floats]:
        """F1 of the averages over videos."""
        mean_columns = sums / counts[..., None]
        precision, recall = mean_columns[..., : len(self.iou)], mean_columns[..., len(self.iou) :]
        parts = {name: mean_columns[..., k] for k, name in enumerate(self.columns)}
        return {
            "score": f1(precision, recall).mean(axis=-1),
            "precision": precision.mean(axis=-1),
            "recall": recall.mean(axis=-1),
        } | parts


def _precision_and_recall(video: VideoEvents, thresholds: tuple[float, ...], as_released: bool) -> list[float]:
    """Precision at each threshold, then recall, each with the annotator for whom it is largest."""
    times = video.candidate.times[: RELEASED_EVENTS if as_released else None]
    epsilon = RELEASED_EPSILON if as_released else 0.0
    overlaps = [overlap_iou(times, reference_events.times, epsilon) for reference_events in video.references]
    matched_shares = [
        [
            max((float(np.mean((overlap > t).any(axis=axis))) for overlap in overlaps if overlap.size), default=0.0)
            for t in thresholds
        ]
        for axis in (1, 0)
    ]
    return matched_shares[0] + matched_shares[1]
