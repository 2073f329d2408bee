"""Why captions got their scores: the evidence of one caption or of the worst.

Nothing here is specific to a metric: all `Evidence` is treated the same way. `explanation_text` prints it.

>>> from capmeter.captions.load import load
>>> captions = load(["a dog runs"], [["the dog is running", "a dog runs fast"]])
>>> (explanation,) = explain(captions, "rouge-l")
>>> explanation.evidence["rouge-l"].candidate, round(explanation.scores["rouge-l"], 3)
(('a', 'dog', 'runs'), 0.836)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.errors import InputError
from capmeter.core.settings import Settings
from capmeter.evaluation.base import Metric
from capmeter.evaluation.evidence import Evidence
from capmeter.evaluation.registry import parse, parse_list
from capmeter.evaluation.results import Results, Scores
from capmeter.evaluation.runner import Evaluation


@dataclass(frozen=True)
class Explanation:
    """One caption with its score and evidence under each metric."""

    caption: Caption
    scores: dict[str, float]
    evidence: dict[str, Evidence]


def explain(
    captions: CaptionSet,
    metrics: str | Iterable[str | Metric],
    *,
    ids: Sequence[str] = (),
    worst: int | None = None,
    by: str | Metric | None = None,
    best: bool = False,
    stored: Results | None = None,
    settings: Settings | None = None,
) -> list[Explanation]:
    """The evidence for these captions, or for the `worst` (or best) by the metric `by`.

    All captions are scored, since document frequencies, for example, come from all of them. Without `ids` and `worst`
    every caption is explained.

    Args:
        captions: the captions with their references.
        metrics: names or values.
        ids: the captions to explain.
        worst: the number of captions to explain, those with the worst scores: the lowest, or the highest where lower is
            better.
        by: the metric that orders captions for `worst` (default: the first).
        best: explain those with the best scores instead.
        stored: results of these captions; metrics that they have are not scored again.
        settings: device, precision, threads and cache.

    Raises:
        InputError: an unknown id, or a metric without explanations.
    """
    parsed_metrics = parse_list(metrics)
    unexplained = [str(metric) for metric in parsed_metrics if not metric.can_explain]
    if unexplained:
        raise InputError(f"{', '.join(unexplained)} cannot explain a score; leave it out, or choose a metric that can")
    ordering_metric = parsed_metrics[0] if by is None else parse(by)
    scored_metrics = (*parsed_metrics, *(() if ordering_metric in parsed_metrics else (ordering_metric,)))
    evaluation = Evaluation(scored_metrics, settings or Settings()).with_collected_states(captions)
    stored_scores = {str(metric): stored[metric] for metric in scored_metrics if stored and str(metric) in set(stored)}
    scored = [metric for metric in scored_metrics if str(metric) not in stored_scores]
    fresh = replace(evaluation, metrics=tuple(scored)).with_collected_states(captions).run(captions) if scored else {}
    results = {str(metric): stored_scores.get(str(metric)) or fresh[str(metric)] for metric in scored_metrics}
    if ids:
        rows = [captions.row(caption_id) for caption_id in ids]
    elif worst is not None:
        scores = results[str(ordering_metric)].items.array
        is_ascending = best == ordering_metric.lower_is_better
        rows = np.argsort(scores if is_ascending else -scores, kind="stable")[:worst].tolist()
    else:
        rows = list(range(len(captions)))
    evidence = {str(m): explain_rows(captions, m, rows, evaluation, stored_scores.get(str(m))) for m in parsed_metrics}
    return [
        Explanation(
            captions[captions.ids[row]],
            {metric_name: float(scores.items.array[row]) for metric_name, scores in results.items()},
            {metric_name: metric_evidence[k] for metric_name, metric_evidence in evidence.items()},
        )
        for k, row in enumerate(rows)
    ]


def describe_order(metrics: str | Iterable[str | Metric], by: str | Metric | None = None, best: bool = False) -> str:
    """What `explain` orders captions by, for these arguments.

    >>> describe_order("cider-d,chair", by="chair")
    'chair, highest first (lower is better)'
    """
    ordering = parse_list(metrics)[0] if by is None else parse(by)
    first = "lowest" if best == ordering.lower_is_better else "highest"
    return f"{ordering}, {first} first ({'lower' if ordering.lower_is_better else 'higher'} is better)"


def explain_rows(
    captions: CaptionSet, metric: Metric, rows: Sequence[int], evaluation: Evaluation, stored: Scores | None = None
) -> list[Evidence]:
    """A metric's evidence for the captions in these rows; `evaluation` may have collected states of these captions.

    Where the stored scores of a judge hold its answers about these captions, it is not asked again.
    """
    ids = [captions.ids[row] for row in rows]
    if stored is not None and stored.answers.keys() >= set(ids):
        return [
            Evidence(
                tuple(captions[caption_id].candidate.split()),
                tuple(tuple(text.split()) for text in captions[caption_id].references),
                facts={**stored.answers[caption_id]},
            )
            for caption_id in ids
        ]
    evaluation = replace(evaluation, metrics=(metric,)).with_collected_states(captions)
    evidence: list[Evidence] = []
    for part in captions.select(rows).chunks(metric.PART_SIZE):
        evidence.extend(evaluation.explain(part)[metric])
    return evidence


def to_dicts(explanations: Iterable[Explanation], order: str = "") -> list[dict[str, Any]]:
    """The explanations as JSON values, one object per caption; `order`: what they are ordered by."""
    return [
        {
            "id": explanation.caption.id,
            "image_id": explanation.caption.image_id,
            "candidate": explanation.caption.candidate,
            "references": list(explanation.caption.references),
            "scores": explanation.scores,
            "evidence": {name: one.to_dict() for name, one in explanation.evidence.items()},
            **({"order": order} if order else {}),
        }
        for explanation in explanations
    ]


def format_tuple(words: Sequence[str]) -> str:
    """A readable tuple of a scene graph: "dog", "brown dog", "dog – run on – grass"."""
    return " – ".join(words) if len(words) == 3 else " ".join(reversed(words))
