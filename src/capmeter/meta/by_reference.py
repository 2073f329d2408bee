"""A metric's score against each single reference, and the spread of these scores.

One candidate may score 3.2 against one reference and .3 against another (UMIC, Figure 1): where the spread is large,
the score says as much about the reference as about the caption. Corpus statistics (document frequencies) are those of
the whole set, so that single-reference scores can be compared with the score against all references.

>>> from capmeter.captions.io import load
>>> captions = load(["a dog runs", "a cat"], [["a dog runs", "the animal plays"], ["a cat", "two cats"]])
>>> (first, second) = by_reference(captions, "rouge-l")
>>> first.metric, first.score, first.values, first.spread
('rouge-l', 1.0, (1.0, 0.0), 1.0)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from capmeter.captions.model import Caption, CaptionSet
from capmeter.errors import InputError
from capmeter.metrics.base import Metric
from capmeter.metrics.evaluation import evaluate
from capmeter.metrics.registry import parse_list
from capmeter.settings import Settings


@dataclass(frozen=True)
class ByReference:
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


def by_reference(
    captions: CaptionSet,
    metrics: str | Iterable[str | Metric],
    *,
    ids: Iterable[str] | None = None,
    settings: Settings | None = None,
) -> list[ByReference]:
    """The captions (those of `ids`, else all), each under each metric, in order."""
    chosen = parse_list(metrics)
    deaf = [str(metric) for metric in chosen if "references" not in metric.needs]
    if deaf:
        raise InputError(f"{', '.join(deaf)} uses no references, so there are no scores by reference")
    asked = captions if ids is None else captions.select([captions.row(id) for id in ids])
    bare = [id for id, number in zip(asked.ids, asked.references.lengths.tolist(), strict=True) if not number]
    if bare:
        raise InputError(f"{len(bare)} captions have no reference, the first: {', '.join(bare[:5])}")
    rows = (
        Caption(f"{row}/{k}", caption.image_id, caption.candidate, (reference,), image=caption.image)
        for row, caption in enumerate(asked)
        for k, reference in enumerate(caption.references)
    )
    single = CaptionSet.from_captions(rows, images_root=asked.images_root, regions=asked.regions)
    whole = evaluate(asked, chosen, corpus=captions, settings=settings)
    alone = evaluate(single, chosen, corpus=captions, settings=settings)
    ends = np.cumsum([0, *asked.references.lengths.tolist()]).tolist()
    return [
        ByReference(
            caption.id,
            str(metric),
            float(whole[metric].items.array[row]),
            caption.references,
            tuple(alone[metric].items.array[ends[row] : ends[row + 1]].tolist()),
        )
        for row, caption in enumerate(asked)
        for metric in chosen
    ]
