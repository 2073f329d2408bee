"""Any metric as a scorer of Inspect (`inspect_ai`).

    from inspect_ai import Task
    from capmeter.integrations.inspect_ai import captions
    Task(dataset=dataset, scorer=captions("bleu-4,meteor,cider-d"))

A sample's target is the list of its references, its id that of the image. Metrics such as CIDEr-D and BLEU are scores
of the whole set, so a sample's own value is its caption, and the log's results have each metric and both ends of its
95 % interval: `cider-d`, `cider-d_low`, `cider-d_high`. The captions are scored once, when all samples are there, each
sentence tokenised once; every number is that of `capmeter score` on the same captions. With several epochs, each
answer is a candidate of its image. Scores of single captions: `capmeter score` on the log (docs/frameworks.md).
"""

from __future__ import annotations

from typing import Any

from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, Value, metric, scorer
from inspect_ai.solver import TaskState

from capmeter.core.errors import InputError
from capmeter.integrations.model_answers import ENDS, OnMismatch, parse_metrics, score_answers, with_intervals

DEFAULT = "bleu-4,rouge-l,cider-d"


@metric(scores="unreduced")  # type: ignore[untyped-decorator, unused-ignore]
def caption_scores() -> Metric:
    """The scores of all samples, by the metrics that the scorer was given."""

    def compute(scores: list[SampleScore]) -> Value:
        details: list[dict[str, Any]] = [sample_score.score.metadata or {} for sample_score in scores]
        if not details or not all("references" in sample_details for sample_details in details):
            raise InputError("caption_scores: expected scores by capmeter's scorer `captions`, of one sample or more")
        answer_rows = [
            {"image_id": each.sample_id, "candidate": each.score.answer or "", "references": detail["references"]}
            for each, detail in zip(scores, details, strict=True)
        ]
        parsed_metrics = parse_metrics(details[0]["metrics"])
        results = score_answers(answer_rows, parsed_metrics.values(), on_mismatch=details[0]["on_mismatch"])
        by_metric = with_intervals(results, parsed_metrics).items()
        return {name + end: each for name, values in by_metric for end, each in zip(ENDS, values, strict=True)}

    return compute


@scorer(metrics=[caption_scores()])  # type: ignore[untyped-decorator, unused-ignore]
def captions(metrics: str | list[str] = DEFAULT, on_mismatch: OnMismatch = "error") -> Scorer:
    """Scores captions with metrics.

    Args:
        metrics: names of metrics; coco-caption's (`CIDEr`, `Bleu_4`) are understood.
        on_mismatch: what happens if the references cannot be those of the captions: "error" or "warn".

    Raises:
        InputError: unknown metrics, or a sample without references.
    """
    parse_metrics(metrics)  # mistakes in the names are reported before the model runs

    async def score(state: TaskState, target: Target) -> Score:
        references = list(target)
        if not any(reference_text.strip() for reference_text in references):
            raise InputError(f"sample {state.sample_id}: it has no target; expected the list of its references")
        caption = state.output.completion
        sample_details = {"references": references, "metrics": metrics, "on_mismatch": on_mismatch}
        return Score(value=caption, answer=caption, metadata=sample_details)

    return score


__all__ = ["caption_scores", "captions"]
