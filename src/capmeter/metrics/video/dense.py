"""The evaluation of dense video captioning (Krishna et al. 2017): captions of the events that overlap enough.

For each threshold t every event of the results is compared with every reference event (of all annotators) that it
overlaps with IoU ≥ t. An event without any counts as one comparison of score 0:

    score of a video at t = mean over comparisons of metric(sentence, reference sentence),    dense = mean over t

Range that of the metric (METEOR by default). The corpus score is the mean over the videos of the results; those without
results are left out. Parts: the score at each threshold.

The released code does otherwise, which `as_released=true` follows. It takes each video as a corpus of its own: METEOR
and BLEU of summed counts, CIDEr with document frequencies of the video's comparisons alone. It compares an event
without a match with random letters rather than to count 0; here that is one word that no caption has. Reference videos
without results count 0. It reads the first thousand events of a video, and blanks in place of characters beyond ASCII;
and it adds 1e-8 to the union, so that events that overlap by just half are below .5. docs/video.md says how much these
change.

>>> Dense(iou=(0.5,)).columns
('score', 'iou 0.5')

R. Krishna, K. Hata, F. Ren, L. Fei-Fei, J. C. Niebles. Dense-Captioning Events in Videos. ICCV 2017.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import CaptionSet, Events, VideoEvents
from capmeter.core.errors import InputError
from capmeter.evaluation.base import CorpusState, MeanMetric, Measurement, RunContext
from capmeter.metrics.video.overlap import RELEASED_EPSILON, note_events, overlap_iou, video_blocks
from capmeter.metrics.video.sentence_pairs import EventCaptionMetric, PairScores, collect_state, replace_non_ascii

Floats = npt.NDArray[np.float64]
NO_MATCH = "zqzqzq"
"""The reference of an event that matches none, as the released code's random letters: a word that no caption has."""
RELEASED_EVENTS = 1000
"""Events of a video that the released code reads."""
THRESHOLDS = (0.3, 0.5, 0.7, 0.9)


def check_thresholds(name: str, iou: tuple[float, ...]) -> None:
    """Raises unless there are thresholds, each once, above 0 and at most 1."""
    if not iou or len(set(iou)) < len(iou) or not all(0 < threshold <= 1 for threshold in iou):
        shown_thresholds = "+".join(f"{threshold:g}" for threshold in iou) or "none"
        raise InputError(
            f"{name}: iou={shown_thresholds}, expected thresholds above 0 and at most 1, each once, such as 0.3+0.5"
        )


@dataclass(frozen=True, kw_only=True)
class Dense(EventCaptionMetric, MeanMetric):
    """A caption metric over all pairs of events that overlap enough.

    Args:
        metric: of two sentences.
        iou: the thresholds of overlap.
        as_released: each video is a corpus of its own, an event without a match is compared with an unknown word, and
            videos without results count 0.
    """

    NAME: ClassVar[str] = "dense"
    SUMMARY: ClassVar[str] = "captions of overlapping events by a metric, mean over overlap thresholds"
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"\text{dense} = \frac{1}{|T|} \sum_{t \in T} \frac{1}{|M_t|} \sum_{(p, g) \in M_t} \text{metric}(p, g), "
        r"\quad M_t = \{ (p, g) : \text{IoU}(p, g) \ge t \} \cup \{ (p, \emptyset) : \text{no such } g \}",
    )

    iou: Annotated[tuple[float, ...], "thresholds of overlap in time"] = THRESHOLDS
    as_released: Annotated[bool, "as the program: each video is a corpus, and one without results counts 0"] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_thresholds(self.name, self.iou)

    @property
    def columns(self) -> tuple[str, ...]:
        """The mean over thresholds, and the score at each."""
        return ("score", *(f"iou {threshold:g}" for threshold in self.iou))

    @property
    def counts_absent(self) -> bool:
        """As released."""
        return self.as_released

    def corpus_state(self) -> CorpusState | None:
        """What the metric needs of all reference events; as released: of each video's own."""
        return None if self.as_released else super().corpus_state()

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """The score of each video at each threshold."""
        video_scores = np.zeros((len(part), len(self.iou)))
        for block in video_blocks(part):
            rows, videos = [row for row, _ in block], [video for _, video in block]
            if self.as_released:
                video_scores[rows] = [self._score_as_released(video, context) for video in videos]
            else:
                video_scores[rows] = self._score_pairs(videos, context)
        return Measurement(np.column_stack([video_scores.mean(axis=1), video_scores]), note_events(part))

    def _score_pairs(self, videos: Sequence[VideoEvents], context: RunContext) -> Floats:
        """(videos, thresholds): means of pair scores, 0 for an event without a match."""
        candidates, references, overlaps = list[str](), list[str](), list[Floats]()
        for video in videos:
            overlaps.append(_overlap(video))
            _add_pairs(video, overlaps[-1] >= min(self.iou), candidates, references)
        pair_scores = PairScores(self.metric, context.state, context.settings).scores(candidates, references)
        video_scores, first = np.zeros((len(videos), len(self.iou))), 0
        for video_index, overlap in enumerate(overlaps):
            is_pair, similarity = overlap >= min(self.iou), np.zeros(overlap.shape)
            last = first + np.count_nonzero(is_pair)
            similarity[is_pair], first = pair_scores[first:last], last
            for column, threshold in enumerate(self.iou):
                is_match = overlap >= threshold
                comparisons = np.count_nonzero(is_match) + np.count_nonzero(~is_match.any(axis=1))
                video_scores[video_index, column] = similarity[is_match].sum() / max(comparisons, 1)
        return video_scores

    def _score_as_released(self, video: VideoEvents, context: RunContext) -> Floats:
        """(thresholds): the metric's corpus score of the video's comparisons."""
        if not video.candidate.times:
            return np.zeros(len(self.iou))
        candidate = Events(video.candidate.times[:RELEASED_EVENTS], video.candidate.sentences[:RELEASED_EVENTS])
        video = VideoEvents(replace_non_ascii(candidate), tuple(map(replace_non_ascii, video.references)))
        overlap, candidates, references = _overlap(video, RELEASED_EPSILON), list[str](), list[str]()
        is_pair = overlap >= min(self.iou)
        _add_pairs(video, is_pair, candidates, references)
        candidates += video.candidate.sentences
        references += [NO_MATCH] * len(video.candidate.sentences)
        matches = [overlap >= threshold for threshold in self.iou]
        is_compared = np.column_stack([np.append(each[is_pair], ~each.any(axis=1)) for each in matches])
        if super().corpus_state() is None:
            sums = PairScores(self.metric, None, context.settings).sum_rows(candidates, references, is_compared)
        else:
            places = [np.flatnonzero(each).tolist() for each in is_compared.T]
            texts = [([candidates[k] for k in each], [references[k] for k in each]) for each in places]
            sums_of_corpora = []  # the pairs of each threshold are a corpus of their own
            for own, others in texts:
                state = collect_state(self.metric, list(zip(own, others, strict=True)), context.settings)
                pair_scores = PairScores(self.metric, state, context.settings)
                sums_of_corpora.append(pair_scores.sum_rows(own, others, np.ones((len(own), 1)))[0])
            sums = np.array(sums_of_corpora)
        return self.metric.from_sums(sums, is_compared.sum(axis=0).astype(np.float64))["score"]

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The metric's facts."""
        return {} if self.as_released and super().corpus_state() else super().signature_facts(context)


def _overlap(video: VideoEvents, epsilon: float = 0.0) -> Floats:
    """The overlap of each of the candidate's events with each event of the references, of all annotators."""
    by_annotator = [overlap_iou(video.candidate.times, each.times, epsilon) for each in video.references]
    return np.concatenate([np.zeros((len(video.candidate.times), 0)), *by_annotator], axis=1)


def _add_pairs(video: VideoEvents, mask: npt.NDArray[np.bool_], candidates: list[str], references: list[str]) -> None:
    """Adds the sentences of the masked pairs, (candidate events, reference events), to both lists."""
    reference_sentences = [text for each in video.references for text in each.sentences]
    candidate_rows, reference_rows = np.nonzero(mask)
    candidates += [video.candidate.sentences[k] for k in candidate_rows.tolist()]
    references += [reference_sentences[k] for k in reference_rows.tolist()]
