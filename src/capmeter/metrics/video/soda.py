"""SODA_c (Fujita et al. 2020): the story of a video, told in the right order at the right times.

The events of results and reference, each in order of start, are matched one to one so that the order is kept and the
sum of overlap × similarity is largest:

    S(i, j) = max( S(i−1, j),  S(i, j−1),  S(i−1, j−1) + IoU(pᵢ, gⱼ) · similarity(pᵢ, gⱼ) )
    precision = S / candidate events,    recall = S / reference events,    SODA_c = their harmonic mean

similarity: METEOR of the two sentences, or any `metric` of text with scores of 0 or more. Of several annotators the one
with the largest SODA_c counts (`annotators=best`), their mean (as PDVC's evaluation), or the F-measure against the
events of all of them in one list (`merged`). Range 0 to 1 for a metric of that range. The corpus score is the mean over
the videos of the results, as in the program; those without results count 0 with `on_absent=empty` (docs/video.md).
Parts: precision and recall, of the annotator that counts or as the score.

The released program gives METEOR its arguments in the other order: it scores the reference sentence against the
candidate's. `as_released=true` does so too, and merges annotators unless `annotators` says otherwise, as the program
does by default. It orders events by their start alone, and with `annotators=best` those of a reference not at all; it
reads blanks in place of characters beyond ASCII, and adds 1e-8 to the union of two events.

>>> similarity = np.array([[0.9, 0.1], [0.8, 0.7]])
>>> round(best_ordered_sum(similarity), 3)
1.6

S. Fujita, T. Hirao, H. Kamigaito, M. Okumura, M. Nagata. SODA: Story Oriented Dense Video Captioning Evaluation
Framework. ECCV 2020.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import CaptionSet, Events, VideoEvents
from capmeter.core.errors import InputError
from capmeter.evaluation.base import MeanMetric, Measurement, RunContext
from capmeter.metrics.video.overlap import RELEASED_EPSILON, note_events, overlap_iou, video_blocks
from capmeter.metrics.video.sentence_pairs import EventCaptionMetric, PairScores, replace_non_ascii

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class SodaC(EventCaptionMetric, MeanMetric):
    """SODA_c: order-preserving matching of events by overlap × similarity.

    Args:
        metric: the similarity of two sentences.
        annotators: what counts of several: `best`, `mean` or `merged`; None: best, as released merged.
        as_released: the similarity of the reference to the candidate, and the order of events, of the released program.
    """

    NAME: ClassVar[str] = "soda-c"
    SUMMARY: ClassVar[str] = "events in order, matched by overlap and METEOR: F-measure"
    columns: ClassVar[tuple[str, ...]] = ("score", "precision", "recall")
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"S(i, j) = \max \left( S(i-1, j), S(i, j-1), S(i-1, j-1) + \text{IoU}(p_i, g_j) \cdot "
        r"\text{similarity}(p_i, g_j) \right)",
        r"P = \frac{S(n, m)}{n}, \quad R = \frac{S(n, m)}{m}, \quad \text{SODA}_c = \frac{2 P R}{P + R}",
    )

    annotators: Annotated[
        Literal["best", "mean", "merged"] | None, "what counts of several annotators; none: best, as released merged"
    ] = None
    as_released: Annotated[bool, "the sentences of a pair in the released program's order"] = False

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """SODA_c, precision and recall of each video."""
        if any(len(span) != 2 for video in part.events if video is not None for span in video.candidate.times):
            raise InputError("soda-c: boxes have no order in time; gated(metric=…) scores captions of boxes")
        video_scores = np.zeros((len(part), 3))
        for block in video_blocks(part):
            video_scores[[row for row, _ in block]] = self._score_videos([video for _, video in block], context)
        return Measurement(video_scores, note_events(part))

    def _score_videos(self, videos: Sequence[VideoEvents], context: RunContext) -> Floats:
        """SODA_c, precision and recall of each video, (videos, 3)."""
        epsilon = RELEASED_EPSILON if self.as_released else 0.0
        overlaps, candidates, references = list[list[Floats]](), list[str](), list[str]()
        for video in map(self._order, videos):
            overlaps.append([overlap_iou(video.candidate.times, each.times, epsilon) for each in video.references])
            for reference, overlap in zip(video.references, overlaps[-1], strict=True):
                candidate_rows, reference_rows = np.nonzero(overlap)
                candidates += [video.candidate.sentences[k] for k in candidate_rows.tolist()]
                references += [reference.sentences[k] for k in reference_rows.tolist()]
        sides = (references, candidates) if self.as_released else (candidates, references)
        pair_scores, first = PairScores(self.metric, context.state, context.settings).scores(*sides), 0
        video_scores = np.zeros((len(videos), 3))
        for video_index, video_overlaps in enumerate(overlaps):
            for overlap in video_overlaps:
                is_pair = overlap > 0
                last = first + np.count_nonzero(is_pair)
                overlap[is_pair], first = overlap[is_pair] * pair_scores[first:last], last
            of_references = [_f_measure(overlap) for overlap in video_overlaps]
            is_mean = self.annotators == "mean"
            video_scores[video_index] = np.mean(of_references, axis=0) if is_mean else max(of_references)
        return video_scores

    def _order(self, video: VideoEvents) -> VideoEvents:
        """The events that are compared, in their order: of all annotators as one if they are merged."""
        references, annotators = video.references, self.annotators or ("merged" if self.as_released else "best")
        if annotators == "merged":
            times = tuple(span for reference in references for span in reference.times)
            references = (Events(times, tuple(text for reference in references for text in reference.sentences)),)
        if not self.as_released:
            return VideoEvents(video.candidate.in_order(), tuple(reference.in_order() for reference in references))
        references = tuple(map(replace_non_ascii, references))
        if annotators != "best":
            references = tuple(_by_start(reference) for reference in references)
        return VideoEvents(_by_start(replace_non_ascii(video.candidate)), references)


def _by_start(events: Events) -> Events:
    """The same events by start, then their order in the file."""
    event_order = sorted(range(len(events.times)), key=lambda k: events.times[k][0])
    return Events(tuple(events.times[k] for k in event_order), tuple(events.sentences[k] for k in event_order))


def _f_measure(weighted_overlap: Floats) -> tuple[float, float, float]:
    """F, precision and recall against one annotator, from overlap × similarity (candidate events, reference events)."""
    matched_sum = best_ordered_sum(weighted_overlap)
    precision, recall = (matched_sum / max(length, 1) for length in weighted_overlap.shape)
    return (2 * precision * recall / (precision + recall) if matched_sum > 0 else 0.0), precision, recall


def best_ordered_sum(similarity: Floats) -> float:
    """The largest sum over pairs (i, j) of a matrix in which both i and j increase from pair to pair."""
    best_sums = np.zeros(similarity.shape[1] + 1)
    for similarity_row in similarity:
        matched_sums = np.append(0.0, np.maximum(best_sums[1:], best_sums[:-1] + similarity_row))
        best_sums = np.maximum.accumulate(matched_sums)
    return float(best_sums[-1])
