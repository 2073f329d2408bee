"""SODA_c (Fujita et al. 2020): the story of a video, told in the right order at the right times.

The events of results and reference, each in order of start, are matched one to one so that the order is kept and the
sum of overlap × similarity is largest:

    S(i, j) = max( S(i−1, j),  S(i, j−1),  S(i−1, j−1) + IoU(pᵢ, gⱼ) · similarity(pᵢ, gⱼ) )
    precision = S / candidate events,    recall = S / reference events,    SODA_c = their harmonic mean

similarity: METEOR of the two sentences, or any `metric` of text with scores of 0 or more. Of several annotators the one
with the largest SODA_c counts. Range 0 to 1 for a metric of that range. The corpus score is the mean over the videos of
the results; videos without results count 0 with `on_absent=empty` (docs/video.md). Parts: precision and recall of that
annotator.

>>> similarity = np.array([[0.9, 0.1], [0.8, 0.7]])
>>> round(best_ordered_sum(similarity), 3)
1.6

S. Fujita, T. Hirao, H. Kamigaito, M. Okumura, M. Nagata. SODA: Story Oriented Dense Video Captioning Evaluation
Framework. ECCV 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import CaptionSet
from capmeter.captions.events import Events
from capmeter.core.errors import InputError
from capmeter.evaluation.base import CorpusState, MeanMetric, Measurement, Metric, RunContext
from capmeter.metrics.ngram.meteor import Meteor
from capmeter.metrics.video.overlap import note_events, overlap_iou, refuse_too_many_pairs
from capmeter.metrics.video.sentence_pairs import PairScores, check_sentence_metric, sentence_facts, sentence_state

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class SodaC(MeanMetric):
    """SODA_c: order-preserving matching of events by overlap × similarity.

    Args:
        metric: the similarity of two sentences.
    """

    NAME: ClassVar[str] = "soda-c"
    SUMMARY: ClassVar[str] = "events in order, matched by overlap and METEOR: F-measure"
    PART_SIZE: ClassVar[int] = 512
    MICROSECONDS: ClassVar[float] = 2000.0
    columns: ClassVar[tuple[str, ...]] = ("score", "precision", "recall")
    needs: ClassVar[frozenset[str]] = frozenset({"references", "events"})

    metric: Annotated[Metric, "similarity of two sentences, 0 or more"] = Meteor()

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
            (video.candidate.in_order(), [reference.in_order() for reference in video.references])
            for video in part.events
            if video is not None
        ]
        overlaps = [
            [overlap_iou(candidate.times, each.times) for each in references] for candidate, references in videos
        ]
        pairs = [
            (candidate.sentences[i], reference.sentences[j])
            for (candidate, references), matrices in zip(videos, overlaps, strict=True)
            for reference, overlap in zip(references, matrices, strict=True)
            for i, j in np.argwhere(overlap > 0).tolist()
        ]
        scores = PairScores(self.metric, pairs, context.state, context.settings)
        values = np.zeros((len(part), 3))
        for row, ((candidate, references), matrices) in enumerate(zip(videos, overlaps, strict=True)):
            results = [
                _f_measure(candidate, reference, overlap, scores)
                for reference, overlap in zip(references, matrices, strict=True)
            ]
            values[row] = max(results, key=lambda result: result[0])
        return Measurement(values, note_events(part))

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The similarity's facts."""
        return sentence_facts(self.metric, context)


def _f_measure(candidate: Events, reference: Events, overlap: Floats, scores: PairScores) -> tuple[float, float, float]:
    """F, precision and recall against one annotator."""
    products, (rows, columns) = np.zeros(overlap.shape), np.nonzero(overlap > 0)
    pairs = [
        (candidate.sentences[i], reference.sentences[j]) for i, j in zip(rows.tolist(), columns.tolist(), strict=True)
    ]
    products[rows, columns] = overlap[rows, columns] * scores.scores[scores.indices(pairs)]
    total = best_ordered_sum(products)
    precision = total / max(len(candidate.times), 1)
    recall = total / max(len(reference.times), 1)
    return (2 * precision * recall / (precision + recall) if total > 0 else 0.0), precision, recall


def best_ordered_sum(similarity: Floats) -> float:
    """The largest sum over pairs (i, j) of a matrix in which both i and j increase from pair to pair."""
    best = np.zeros(similarity.shape[1] + 1)
    for row in similarity:
        matched = np.append(0.0, np.maximum(best[1:], best[:-1] + row))
        best = np.maximum.accumulate(matched)
    return float(best[-1])
