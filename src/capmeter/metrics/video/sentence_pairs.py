"""Scores of single sentences against single sentences, by any metric: what matched events are compared with.

The metric sees each distinct pair once, as a caption with one reference. What it needs of the corpus (document
frequencies of CIDEr-D) it gets from all reference events of the run, each event a document of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import Caption, CaptionSet, Events
from capmeter.core.errors import InputError
from capmeter.core.settings import Settings
from capmeter.evaluation.base import CorpusState, Metric, RunContext
from capmeter.evaluation.runner import CorpusStates, Evaluation
from capmeter.metrics.ngram.meteor import Meteor
from capmeter.metrics.video.overlap import EventMetric

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Texts = str | tuple[str, ...]
"""What a sentence is compared with: another, or several of one object."""
Pair = tuple[str, Texts]


@dataclass(frozen=True)
class ReferenceEvents(CorpusState):
    """What a metric of sentences needs of all reference events of the run."""

    metric: Metric
    by_box: bool = False  # all captions of one box are one document

    def collect(self, part: CaptionSet, context: RunContext) -> CorpusStates:
        """The metric's corpus states of this part's reference events, each a document."""
        videos = [video for video in part.events if video is not None]
        if self.by_box:
            event_captions = [captions for video in videos for captions in captions_by_box(video.references).values()]
        else:
            event_captions = [(text,) for video in videos for events in video.references for text in events.sentences]
        return collect_state(self.metric, [(captions[0], captions) for captions in event_captions], context.settings)


def captions_by_box(references: Iterable[Events]) -> dict[tuple[float, ...], tuple[str, ...]]:
    """All captions of each box (or interval), those of all annotators."""
    captions: dict[tuple[float, ...], tuple[str, ...]] = {}
    for events in references:
        for box, text in zip(events.times, events.sentences, strict=True):
            captions[box] = (*captions.get(box, ()), text)
    return captions


@dataclass(frozen=True, kw_only=True)
class EventCaptionMetric(EventMetric):
    """The base of metrics that compare the captions of matched events by another metric of text."""

    BY_BOX: ClassVar[bool] = False

    metric: Annotated[Metric, "what compares two sentences"] = Meteor()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.metric.lower_is_better:
            raise InputError(
                f"{self.name}: lower values of metric={self.metric} are better, but an event without a match counts 0; "
                "choose a metric of which higher values are better"
            )
        if other := self.metric.needs - {"references"}:
            raise InputError(
                f"{self.name}: metric={self.metric} needs more than two sentences ({', '.join(sorted(other))}); choose "
                "one of text"
            )

    @property
    def extras(self) -> tuple[str, ...]:
        """Those of the metric."""
        return self.metric.extras

    def corpus_state(self) -> CorpusState | None:
        """What the metric needs of all reference events, or boxes."""
        return ReferenceEvents(self.metric, self.BY_BOX) if Evaluation((self.metric,)).pending_states else None

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The metric's facts."""
        evaluation = Evaluation((self.metric,), context.settings)
        if isinstance(context.state, CorpusStates):
            evaluation = evaluation.with_states(context.state)
        return {} if evaluation.pending_states else self.metric.signature_facts(evaluation.context(self.metric))


def collect_state(metric: Metric, pairs: Sequence[Pair], settings: Settings) -> CorpusStates:
    """The corpus states of a metric from pairs of sentences, each a document.

    Args:
        metric: any metric of text.
        pairs: candidate and references each.
        settings: of the run.
    """
    evaluation = Evaluation((metric,), settings)
    blocks = (pairs[start : start + metric.PART_SIZE] for start in range(0, len(pairs), metric.PART_SIZE))
    return reduce(add, (evaluation.collect(_pair_captions(block)) for block in blocks))


def _pair_captions(pairs: Iterable[Pair]) -> CaptionSet:
    """Each pair as a caption with one reference."""
    return CaptionSet.from_captions(
        Caption(str(k), str(k), candidate, (reference,) if isinstance(reference, str) else reference)
        for k, (candidate, reference) in enumerate(pairs)
    )


class PairScores:
    """Scores of pairs of sentences by a metric. Equal pairs are measured once, and a block of them at a time.

    Args:
        metric: any metric of text.
        state: what `collect_state` or `ReferenceEvents` collected; None: nothing is needed.
        settings: of the run.
    """

    def __init__(self, metric: Metric, state: Any, settings: Settings) -> None:
        self._metric, self._evaluation = metric, Evaluation((metric,), settings)
        if isinstance(state, CorpusStates):
            self._evaluation = self._evaluation.with_states(state)
        if self._evaluation.pending_states:
            raise InputError(
                f"{metric} needs more than one pass over the corpus, which events do not offer; choose another"
            )

    def scores(self, candidates: Sequence[str], references: Sequence[Texts]) -> Floats:
        """The score of each sentence against the reference in the same place, (pairs,)."""
        first_places, pair_numbers = _distinct_pairs(candidates, references)
        pair_scores = np.zeros(len(first_places))
        for block, rows in self._measure(candidates, references, first_places):
            pair_scores[block] = self._metric.from_sums(rows, np.ones(len(rows)))["score"]
        return pair_scores[pair_numbers]

    def sum_rows(self, candidates: Sequence[str], references: Sequence[Texts], weights: Floats) -> Floats:
        """Weighted sums of the metric's rows, (sums, columns).

        Args:
            candidates: a text per pair.
            references: a text or several per pair.
            weights: of each pair in each sum, (pairs, sums).
        """
        first_places, pair_numbers = _distinct_pairs(candidates, references)
        distinct_weights = np.zeros((len(first_places), weights.shape[1]))
        np.add.at(distinct_weights, pair_numbers, weights)
        row_sums = np.zeros((weights.shape[1], len(self._metric.columns)))
        for block, rows in self._measure(candidates, references, first_places):
            row_sums += distinct_weights[block].T @ rows
        return row_sums

    def _measure(
        self, candidates: Sequence[str], references: Sequence[Texts], places: Indices
    ) -> Iterator[tuple[slice, Floats]]:
        """The rows of the pairs in these places, block by block."""
        size = min(each.PART_SIZE for each in self._evaluation.ordered_metrics)
        for start in range(0, len(places), size):
            block = slice(start, start + size)
            captions = _pair_captions((candidates[k], references[k]) for k in places[block].tolist())
            yield block, self._evaluation.measure(captions)[self._metric].values


def _distinct_pairs(candidates: Sequence[str], references: Sequence[Texts]) -> tuple[Indices, Indices]:
    """Where each distinct pair is first, and the number of each pair among them."""
    candidate_numbers, reference_numbers = _number_texts(candidates), _number_texts(references)
    codes = candidate_numbers * len(references) + reference_numbers
    _, first_places, pair_numbers = np.unique(codes, return_index=True, return_inverse=True)
    return first_places, pair_numbers


def _number_texts(texts: Sequence[Texts]) -> Indices:
    """The number of each text, equal for equal ones."""
    numbers: dict[Texts, int] = {}
    return np.fromiter((numbers.setdefault(text, len(numbers)) for text in texts), np.int64, len(texts))


def replace_non_ascii(events: Events) -> Events:
    """The events with blanks in place of characters beyond ASCII, as the released programs read sentences."""
    return events.map(lambda text: "".join(each if each.isascii() else " " for each in text))
