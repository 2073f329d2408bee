"""SODA_c (Fujita et al. 2020): the story of a video, told in the right order at the right times.

The events of results and reference, each in order of start, are matched one to one so that the order is kept and the
sum of overlap × similarity is largest:

    S(i, j) = max( S(i−1, j),  S(i, j−1),  S(i−1, j−1) + IoU(pᵢ, gⱼ) · similarity(pᵢ, gⱼ) )
    precision = S / candidate events,    recall = S / reference events,    SODA_c = their harmonic mean

similarity: METEOR of the two sentences, or any `metric` of text with scores of 0 or more. Of several annotators the one
with the largest SODA_c counts (`annotators=best`), their mean (as PDVC's evaluation), or the F-measure against the
events of all of them in one list (`merged`). Range 0 to 1 for a metric of that range. The corpus score is the mean over
the videos of the results; videos without results count 0 with `on_absent=empty` (docs/video.md). Parts: precision and
recall, of the annotator that counts or as the score.

The released program gives METEOR its arguments in the other order: it scores the reference sentence against the
candidate's. `as_released=true` does so too, and merges annotators unless `annotators` says otherwise, as the program
does by default.

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

from capmeter.captions.caption_set import CaptionSet
from capmeter.captions.events import Events
from capmeter.core.errors import InputError
from capmeter.evaluation.base import CorpusState, MeanMetric, Measurement, Metric, RunContext
from capmeter.metrics.ngram.meteor import Meteor
from capmeter.metrics.video.overlap import note_events, overlap_iou, refuse_too_many_pairs
from capmeter.metrics.video.sentence_pairs import (
    Pair,
    PairScores,
    check_sentence_metric,
    sentence_facts,
    sentence_state,
)

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class SodaC(MeanMetric):
    """SODA_c: order-preserving matching of events by overlap × similarity.

    Args:
        metric: the similarity of two sentences.
        annotators: what counts of several: `best`, `mean` or `merged`; None: best, as released merged.
        as_released: the similarity of the reference to the candidate, as the released program computes it.
    """

    NAME: ClassVar[str] = "soda-c"
    SUMMARY: ClassVar[str] = "events in order, matched by overlap and METEOR: F-measure"
    PART_SIZE: ClassVar[int] = 512
    MICROSECONDS: ClassVar[float] = 2000.0
    columns: ClassVar[tuple[str, ...]] = ("score", "precision", "recall")
    needs: ClassVar[frozenset[str]] = frozenset({"references", "events"})
    FAMILY: ClassVar[str] = "Events in time"
    MISLEADS: ClassVar[str] = (
        "Measures where borders were put as much as what was said: people reach 5 of 100 by SODA_c against each "
        "other. Scores with given events and with a system's own are not comparable."
    )
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"S(i, j) = \max \left( S(i-1, j), S(i, j-1), S(i-1, j-1) + \text{IoU}(p_i, g_j) \cdot "
        r"\text{similarity}(p_i, g_j) \right)",
        r"P = \frac{S(n, m)}{n}, \quad R = \frac{S(n, m)}{m}, \quad \text{SODA}_c = \frac{2 P R}{P + R}",
    )
    GUIDE: ClassVar[str] = "docs/video.md"

    metric: Annotated[Metric, "similarity of two sentences, 0 or more"] = Meteor()
    annotators: Annotated[
        Literal["best", "mean", "merged"] | None, "what counts of several annotators; none: best, as released merged"
    ] = None
    as_released: Annotated[bool, "the sentences of a pair in the released program's order"] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sentence_metric(self.name, self.metric)

    @property
    def extras(self) -> tuple[str, ...]:
        """Those of the similarity."""
        return self.metric.extras

    def corpus_state(self) -> CorpusState | None:
        """What the similarity needs of all reference events."""
        return sentence_state(self.metric)

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """SODA_c, precision and recall of each video."""
        refuse_too_many_pairs(part)
        if any(len(span) != 2 for video in part.events if video is not None for span in video.candidate.times):
            raise InputError("soda-c: boxes have no order in time; gated(metric=…) scores captions of boxes")
        videos = [
            (video.candidate.in_order(), [reference.in_order() for reference in self._annotators(video.references)])
            for video in part.events
            if video is not None
        ]
        overlap_matrices = [
            [overlap_iou(candidate.times, reference_events.times) for reference_events in references]
            for candidate, references in videos
        ]
        pairs = [
            self._pair(candidate.sentences[i], reference.sentences[j])
            for (candidate, references), video_overlaps in zip(videos, overlap_matrices, strict=True)
            for reference, overlap in zip(references, video_overlaps, strict=True)
            for i, j in np.argwhere(overlap > 0).tolist()
        ]
        pair_scores = PairScores(self.metric, pairs, context.state, context.settings)
        video_scores = np.zeros((len(part), 3))
        for video_index, ((candidate, references), video_overlaps) in enumerate(
            zip(videos, overlap_matrices, strict=True)
        ):
            reference_results = [
                self._f_measure(candidate, reference, overlap, pair_scores)
                for reference, overlap in zip(references, video_overlaps, strict=True)
            ]
            if self.annotators == "mean":
                video_scores[video_index] = np.mean(reference_results, axis=0)
            else:
                video_scores[video_index] = max(reference_results, key=lambda result: result[0])
        return Measurement(video_scores, note_events(part))

    def _annotators(self, references: Sequence[Events]) -> Sequence[Events]:
        """The events of each annotator, or those of all as one."""
        if self.annotators != "merged" and not (self.as_released and self.annotators is None):
            return references
        times = tuple(span for reference in references for span in reference.times)
        return [Events(times, tuple(text for reference in references for text in reference.sentences))]

    def _pair(self, candidate: str, reference: str) -> Pair:
        """The sentence that is scored, and the one that it is compared with."""
        return (reference, candidate) if self.as_released else (candidate, reference)

    def _f_measure(
        self, candidate: Events, reference: Events, overlap: Floats, pair_scores: PairScores
    ) -> tuple[float, float, float]:
        """F, precision and recall against one annotator."""
        weighted_overlaps, (row_indices, column_indices) = np.zeros(overlap.shape), np.nonzero(overlap > 0)
        pairs = [
            self._pair(candidate.sentences[i], reference.sentences[j])
            for i, j in zip(row_indices.tolist(), column_indices.tolist(), strict=True)
        ]
        weighted_overlaps[row_indices, column_indices] = (
            overlap[row_indices, column_indices] * pair_scores.scores[pair_scores.indices(pairs)]
        )
        matched_sum = best_ordered_sum(weighted_overlaps)
        precision = matched_sum / max(len(candidate.times), 1)
        recall = matched_sum / max(len(reference.times), 1)
        return (2 * precision * recall / (precision + recall) if matched_sum > 0 else 0.0), precision, recall

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The similarity's facts."""
        return sentence_facts(self.metric, context)


def best_ordered_sum(similarity: Floats) -> float:
    """The largest sum over pairs (i, j) of a matrix in which both i and j increase from pair to pair."""
    best_sums = np.zeros(similarity.shape[1] + 1)
    for similarity_row in similarity:
        matched_sums = np.append(0.0, np.maximum(best_sums[1:], best_sums[:-1] + similarity_row))
        best_sums = np.maximum.accumulate(matched_sums)
    return float(best_sums[-1])
