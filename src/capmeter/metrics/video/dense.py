"""The evaluation of dense video captioning (Krishna et al. 2017): captions of the events that overlap enough.

For each threshold t every event of the results is compared with every reference event (of all annotators) that it
overlaps with IoU ≥ t. An event without any counts as one comparison of score 0:

    score of a video at t = mean over comparisons of metric(sentence, reference sentence),    dense = mean over t

Range that of the metric (METEOR by default). The corpus score is the mean over the videos of the results; videos
without results count 0 with `on_absent=empty`. Parts: the score at each threshold.

The released code does otherwise in two respects, which `as_released=true` follows. It takes each video as a corpus of
its own: METEOR and BLEU of summed counts, CIDEr with document frequencies of the video's comparisons alone. And it
compares an event without a match with random letters rather than to count 0; here that is one word that no caption has.
docs/video.md says how much these change.

>>> Dense(iou=(0.5,)).columns
('score', 'iou 0.5')

R. Krishna, K. Hata, F. Ren, L. Fei-Fei, J. C. Niebles. Dense-Captioning Events in Videos. ICCV 2017.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import CaptionSet
from capmeter.captions.events import VideoEvents
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
NO_MATCH = "zqzqzq"
"""The reference of an event that matches none, as the released code's random letters: a word that no caption has."""
THRESHOLDS = (0.3, 0.5, 0.7, 0.9)


def check_thresholds(name: str, iou: tuple[float, ...]) -> None:
    """Raises unless there are thresholds, each once, above 0 and at most 1."""
    if not iou or len(set(iou)) < len(iou) or not all(0 < threshold <= 1 for threshold in iou):
        shown_thresholds = "+".join(f"{threshold:g}" for threshold in iou) or "none"
        raise InputError(
            f"{name}: iou={shown_thresholds}, expected thresholds above 0 and at most 1, each once, such as 0.3+0.5"
        )


@dataclass(frozen=True, kw_only=True)
class Dense(MeanMetric):
    """A caption metric over all pairs of events that overlap enough.

    Args:
        metric: of two sentences.
        iou: the thresholds of overlap.
        as_released: each video is a corpus of its own, and an event without a match is compared with an unknown word.
    """

    NAME: ClassVar[str] = "dense"
    SUMMARY: ClassVar[str] = "captions of overlapping events by a metric, mean over overlap thresholds"
    PART_SIZE: ClassVar[int] = 512
    MICROSECONDS: ClassVar[float] = 2000.0
    needs: ClassVar[frozenset[str]] = frozenset({"references", "events"})
    FAMILY: ClassVar[str] = "Events in time"
    MISLEADS: ClassVar[str] = (
        "Measures where borders were put as much as what was said: people reach 5 of 100 by SODA_c against each "
        "other. Scores with given events and with a system's own are not comparable."
    )
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"\text{dense} = \frac{1}{|T|} \sum_{t \in T} \frac{1}{|M_t|} \sum_{(p, g) \in M_t} \text{metric}(p, g), "
        r"\quad M_t = \{ (p, g) : \text{IoU}(p, g) \ge t \} \cup \{ (p, \emptyset) : \text{no such } g \}",
    )
    GUIDE: ClassVar[str] = "docs/video.md"

    metric: Annotated[Metric, "what compares two sentences"] = Meteor()
    iou: Annotated[tuple[float, ...], "thresholds of overlap in time"] = THRESHOLDS
    as_released: Annotated[bool, "each video is its own corpus; events without a match meet an unknown word"] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_thresholds(self.name, self.iou)
        check_sentence_metric(self.name, self.metric)

    @property
    def columns(self) -> tuple[str, ...]:
        """The mean over thresholds, and the score at each."""
        return ("score", *(f"iou {threshold:g}" for threshold in self.iou))

    @property
    def extras(self) -> tuple[str, ...]:
        """Those of the metric."""
        return self.metric.extras

    def corpus_state(self) -> CorpusState | None:
        """What the metric needs of all reference events; as released: of each video's own."""
        return None if self.as_released else sentence_state(self.metric)

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """The score of each video at each threshold."""
        refuse_too_many_pairs(part)
        comparisons = [_compare(video, self.iou) for video in part.events if video is not None]
        score_videos = self._score_as_released if self.as_released else self._score_pairs
        video_scores = score_videos(comparisons, context)
        return Measurement(np.column_stack([video_scores.mean(axis=1), video_scores]), note_events(part))

    def _score_pairs(self, comparisons: list[list[list[Pair]]], context: RunContext) -> Floats:
        """(videos, thresholds): means of pair scores, 0 for an event without a match."""
        matched_pairs = {pair for video in comparisons for pairs in video for pair in pairs if pair[1] != NO_MATCH}
        pair_scores = PairScores(self.metric, sorted(matched_pairs), context.state, context.settings)
        video_scores = np.zeros((len(comparisons), len(self.iou)))
        for video_index, video in enumerate(comparisons):
            for column, pairs in enumerate(video):
                if pairs:
                    pair_indices = pair_scores.indices(pair for pair in pairs if pair[1] != NO_MATCH)
                    video_scores[video_index, column] = pair_scores.scores[pair_indices].sum() / len(pairs)
        return video_scores

    def _score_as_released(self, comparisons: list[list[list[Pair]]], context: RunContext) -> Floats:
        """(videos, thresholds): the metric's corpus score of each video's comparisons."""
        video_scores = np.zeros((len(comparisons), len(self.iou)))
        shared_scores = None
        if sentence_state(self.metric) is None:
            all_pairs = (pair for video in comparisons for pairs in video for pair in pairs)
            shared_scores = PairScores(self.metric, all_pairs, None, context.settings)
        for video_index, video in enumerate(comparisons):
            for column, pairs in enumerate(video):
                if not pairs:
                    continue
                pair_scores = shared_scores or PairScores.of_corpus(self.metric, pairs, context.settings)
                sums = pair_scores.rows[pair_scores.indices(pairs)].sum(axis=0)
                video_scores[video_index, column] = self.metric.from_sums(sums, np.float64(len(pairs)))["score"]
        return video_scores

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The metric's facts."""
        return {} if self.as_released and sentence_state(self.metric) else sentence_facts(self.metric, context)


def _compare(video: VideoEvents, thresholds: tuple[float, ...]) -> list[list[Pair]]:
    """For each threshold the comparisons of the candidate's events, in their order."""
    overlaps = np.concatenate(
        [
            np.zeros((len(video.candidate.times), 0)),
            *(overlap_iou(video.candidate.times, reference_events.times) for reference_events in video.references),
        ],
        axis=1,
    )
    reference_sentences = [text for reference_events in video.references for text in reference_events.sentences]
    by_threshold: list[list[Pair]] = []
    for threshold in thresholds:
        pairs: list[Pair] = []
        for text, is_match in zip(video.candidate.sentences, overlaps >= threshold, strict=True):
            matched_events = np.flatnonzero(is_match).tolist()
            pairs += [(text, reference_sentences[k]) for k in matched_events] or [(text, NO_MATCH)]
        by_threshold.append(pairs)
    return by_threshold
