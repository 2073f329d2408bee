"""A metric's score against each single reference, and the spread of these scores.

One candidate may score 3.2 against one reference and .3 against another (UMIC, Figure 1): where the spread is large,
the score says as much about the reference as about the caption. Corpus statistics (document frequencies) are those of
the whole set, so that single-reference scores can be compared with the score against all references.

>>> from capmeter.captions.load import load
>>> captions = load(["a dog runs", "a cat"], [["a dog runs", "the animal plays"], ["a cat", "two cats"]])
>>> [(row["score"], row["value"], row["spread"]) for row in score_by_reference(captions, "rouge-l")][:2]
[(1.0, 1.0, 1.0), (1.0, 0.0, 1.0)]
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.errors import InputError
from capmeter.core.messages import format_count
from capmeter.core.settings import Settings
from capmeter.evaluation.base import Metric
from capmeter.evaluation.registry import parse_list
from capmeter.evaluation.runner import evaluate


def score_by_reference(
    captions: CaptionSet, metrics: str | Iterable[str | Metric], *, settings: Settings | None = None
) -> list[dict[str, Any]]:
    """Each caption under each metric against each of its references.

    Args:
        captions: with their references.
        metrics: names or values.
        settings: device, precision, threads and cache.

    Returns:
        A row for each caption, metric and reference, in order: `id`, `metric`, the `score` against all references, the
        `spread` (the largest value minus the smallest), the `reference`, and the `value` against it alone.

    Raises:
        InputError: a metric that uses no references, or a caption without any.
    """
    parsed_metrics = parse_list(metrics)
    reference_free = [str(metric) for metric in parsed_metrics if "references" not in metric.needs]
    if reference_free:
        raise InputError(f"{', '.join(reference_free)} uses no references, so there are no scores by reference")
    lengths = captions.references.lengths.tolist()
    unreferenced = [id for id, number in zip(captions.ids, lengths, strict=True) if not number]
    if unreferenced:
        count_phrase = format_count(len(unreferenced), "caption has", "captions have")
        raise InputError(f"{count_phrase} no reference, the first: {', '.join(unreferenced[:5])}")
    single_captions = (
        Caption(f"{caption_index}/{k}", caption.image_id, caption.candidate, (reference,), image=caption.image)
        for caption_index, caption in enumerate(captions)
        for k, reference in enumerate(caption.references)
    )
    single_references = CaptionSet.from_captions(
        single_captions, images_root=captions.images_root, regions=captions.regions
    )
    against_all = evaluate(captions, parsed_metrics, settings=settings)
    against_one = evaluate(single_references, parsed_metrics, corpus=captions, settings=settings)
    row_ends = np.cumsum([0, *lengths]).tolist()
    rows = []
    for caption_index, caption in enumerate(captions):
        for metric in parsed_metrics:
            values = against_one[metric].items.array[row_ends[caption_index] : row_ends[caption_index + 1]].tolist()
            score = float(against_all[metric].items.array[caption_index])
            of_caption = {"id": caption.id, "metric": str(metric), "score": score, "spread": max(values) - min(values)}
            rows += [
                of_caption | {"reference": reference, "value": value}
                for reference, value in zip(caption.references, values, strict=True)
            ]
    return rows
