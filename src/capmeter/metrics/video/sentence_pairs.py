"""Scores of single sentences against single sentences, by any metric: what matched events are compared with.

The metric sees each distinct pair once, as a caption with one reference. What it needs of the corpus (document
frequencies of CIDEr-D) it gets from all reference events of the run, each event a document of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.captions.events import Events
from capmeter.core.errors import InputError
from capmeter.core.settings import Settings
from capmeter.evaluation.base import CorpusState, Metric, RunContext
from capmeter.evaluation.runner import CorpusStates, Evaluation

Floats = npt.NDArray[np.float64]
Pair = tuple[str, str | tuple[str, ...]]
"""A sentence, and the one that it is compared with, or several of one object."""


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
        documents: list[Pair] = [(captions[0], captions) for captions in event_captions]
        return Evaluation((self.metric,), context.settings).collect(pair_captions(documents))


def captions_by_box(references: Iterable[Events]) -> dict[tuple[float, ...], tuple[str, ...]]:
    """All captions of each box (or interval), those of all annotators."""
    captions: dict[tuple[float, ...], tuple[str, ...]] = {}
    for events in references:
        for box, text in zip(events.times, events.sentences, strict=True):
            captions[box] = (*captions.get(box, ()), text)
    return captions


def sentence_state(metric: Metric, by_box: bool = False) -> ReferenceEvents | None:
    """The corpus state of a metric of sentences; None where it needs none."""
    return ReferenceEvents(metric, by_box) if Evaluation((metric,)).pending_states else None


def check_sentence_metric(name: str, metric: Metric) -> None:
    """Raises unless a metric compares texts alone, and higher values of it are better."""
    if metric.lower_is_better:
        raise InputError(
            f"{name}: lower values of metric={metric} are better, but an event without a match counts 0; choose a "
            "metric of which higher values are better"
        )
    if other := metric.needs - {"references"}:
        raise InputError(
            f"{name}: metric={metric} needs more than two sentences ({', '.join(sorted(other))}); choose one of text"
        )


def sentence_facts(metric: Metric, context: RunContext) -> dict[str, str]:
    """The signature facts of a metric of sentences."""
    evaluation = Evaluation((metric,), context.settings)
    if isinstance(context.state, CorpusStates):
        evaluation = evaluation.with_states(context.state)
    return {} if evaluation.pending_states else metric.signature_facts(evaluation.context(metric))


def pair_captions(pairs: Sequence[Pair]) -> CaptionSet:
    """Each pair as a caption with one reference."""
    return CaptionSet.from_captions(
        Caption(str(k), str(k), candidate, (reference,) if isinstance(reference, str) else reference)
        for k, (candidate, reference) in enumerate(pairs)
    )


class PairScores:
    """The rows and scores of distinct pairs of sentences.

    Args:
        metric: any metric of text.
        pairs: the pairs, repeated ones are scored once.
        state: what `ReferenceEvents` collected; None: nothing is needed.
        settings: of the run.
    """

    def __init__(self, metric: Metric, pairs: Iterable[Pair], state: Any, settings: Settings) -> None:
        self._index = {pair: k for k, pair in enumerate(dict.fromkeys(pairs))}
        evaluation = Evaluation((metric,), settings)
        if isinstance(state, CorpusStates):
            evaluation = evaluation.with_states(state)
        if evaluation.pending_states:
            raise InputError(
                f"{metric} needs more than one pass over the corpus, which events do not offer; choose another"
            )
        captions, size = pair_captions(list(self._index)), min(each.PART_SIZE for each in evaluation.ordered_metrics)
        value_blocks = [evaluation.measure(chunk)[metric].values for chunk in captions.chunks(size) if len(chunk)]
        self.rows: Floats = np.concatenate(value_blocks) if value_blocks else np.zeros((0, len(metric.columns)))
        self.scores: Floats = metric.from_sums(self.rows, np.ones(len(self.rows)))["score"]

    @classmethod
    def of_corpus(cls, metric: Metric, pairs: Sequence[Pair], settings: Settings) -> PairScores:
        """The pairs as a corpus of their own: each is a document."""
        return cls(metric, pairs, Evaluation((metric,), settings).collect(pair_captions(pairs)), settings)

    def indices(self, pairs: Iterable[Pair]) -> npt.NDArray[np.int64]:
        """Where these pairs are among `rows` and `scores`."""
        return np.fromiter((self._index[pair] for pair in pairs), np.int64)
