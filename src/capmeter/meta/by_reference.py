"""A metric's score against each single reference, and the spread of these scores.

One candidate may score 3.2 against one reference and .3 against another (UMIC, Figure 1): where the spread is large,
the score says as much about the reference as about the caption. Corpus statistics (document frequencies) are those of
the whole set, so that single-reference scores can be compared with the score against all references.

>>> from capmeter.captions.load import load
>>> captions = load(["a dog runs", "a cat"], [["a dog runs", "the animal plays"], ["a cat", "two cats"]])
>>> (first, second) = score_by_reference(captions, "rouge-l")
>>> first.metric, first.score, first.values, first.spread
('rouge-l', 1.0, (1.0, 0.0), 1.0)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.errors import InputError
from capmeter.core.messages import format_count
from capmeter.core.settings import Settings
from capmeter.evaluation.base import Metric
from capmeter.evaluation.registry import parse_list
from capmeter.evaluation.runner import evaluate


@dataclass(frozen=True)
class ReferenceScores:
    """One caption under one metric: its score against all references, and against each one alone, in order."""

    id: str
    metric: str
    score: float
    references: tuple[str, ...]
    values: tuple[float, ...]

    @property
    def spread(self) -> float:
        """The largest value minus the smallest."""
        return max(self.values) - min(self.values)


def score_by_reference(
    captions: CaptionSet,
    metrics: str | Iterable[str | Metric],
    *,
    ids: Iterable[str] | None = None,
    settings: Settings | None = None,
) -> list[ReferenceScores]:
    """The captions (those of `ids`, else all), each under each metric, in order.

    Raises:
        InputError: a metric that uses no references, or a caption without any.
    """
    parsed_metrics = parse_list(metrics)
    reference_free = [str(metric) for metric in parsed_metrics if "references" not in metric.needs]
    if reference_free:
        raise InputError(f"{', '.join(reference_free)} uses no references, so there are no scores by reference")
    selected_captions = captions if ids is None else captions.select([captions.row(id) for id in ids])
    lengths = selected_captions.references.lengths.tolist()
    unreferenced = [id for id, number in zip(selected_captions.ids, lengths, strict=True) if not number]
    if unreferenced:
        count_phrase = format_count(len(unreferenced), "caption has", "captions have")
        raise InputError(f"{count_phrase} no reference, the first: {', '.join(unreferenced[:5])}")
    single_captions = (
        Caption(f"{caption_index}/{k}", caption.image_id, caption.candidate, (reference,), image=caption.image)
        for caption_index, caption in enumerate(selected_captions)
        for k, reference in enumerate(caption.references)
    )
    single_references = CaptionSet.from_captions(
        single_captions, images_root=selected_captions.images_root, regions=selected_captions.regions
    )
    against_all = evaluate(selected_captions, parsed_metrics, corpus=captions, settings=settings)
    against_one = evaluate(single_references, parsed_metrics, corpus=captions, settings=settings)
    row_ends = np.cumsum([0, *lengths]).tolist()
    return [
        ReferenceScores(
            caption.id,
            str(metric),
            float(against_all[metric].items.array[caption_index]),
            caption.references,
            tuple(against_one[metric].items.array[row_ends[caption_index] : row_ends[caption_index + 1]].tolist()),
        )
        for caption_index, caption in enumerate(selected_captions)
        for metric in parsed_metrics
    ]
