"""capmeter's metrics as a module of Hugging Face `evaluate`, loaded by path, without a network.

    import evaluate
    from capmeter.integrations.evaluate import PATH
    scorer = evaluate.load(PATH, "cider-d,rouge-l")                  # was: evaluate.load("rouge")

>>> scorer = CaptionScores(config_name="rouge-l")
>>> scorer.add_batch(predictions=["a dog runs"], references=[["a dog runs", "a dog is running"]])
>>> scorer.add(prediction="two cats", reference=["two cats sleep"])
>>> {name: round(score, 4) for name, score in scorer.compute().items()}
{'rouge-l': 0.8861}

The scores are those of `capmeter.score` on the same captions. The configuration's name selects the metrics,
`compute(metrics=...)` overrides it. `compute(items=True)` adds the scores of the captions, in their order, under
`"cider-d items"`. With `num_process` and `process_id` the first process scores the predictions of all, in the order of
processes: `evaluate` gathers them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import datasets
import evaluate

from capmeter.core.settings import Settings
from capmeter.evaluation.base import Metric
from capmeter.evaluation.runner import score
from capmeter.integrations.texts import reference_lists_of, texts_of

PATH = __file__
"""The argument of `evaluate.load`."""
DEFAULT = ("bleu-4", "rouge-l", "cider-d")


class CaptionScores(evaluate.Metric):  # type: ignore[misc, unused-ignore]
    """Caption metrics with `evaluate`'s interface."""

    def _info(self) -> evaluate.MetricInfo:
        text_feature = datasets.Value("string")
        several = datasets.Features({"predictions": text_feature, "references": datasets.Sequence(text_feature)})
        single_reference = datasets.Features({"predictions": text_feature, "references": text_feature})
        return evaluate.MetricInfo(
            description="Scores of image captions by capmeter's metrics.",
            citation="",
            inputs_description="predictions: captions; references: one or several human captions for each",
            features=[several, single_reference],
        )

    def add_batch(self, *, predictions: Any = None, references: Any = None, **others: Any) -> None:
        """Adds captions.

        Args:
            predictions: texts.
            references: a list of texts for each, or one text.
            others: as in `evaluate.Metric.add_batch`.
        """
        lists = reference_lists_of(references, "references")
        super().add_batch(predictions=texts_of(predictions, "predictions"), references=lists, **others)

    def _compute(
        self,
        predictions: Sequence[str],
        references: Sequence[Any],
        metrics: str | Iterable[str | Metric] | None = None,
        items: bool = False,
        settings: Settings | None = None,
    ) -> dict[str, Any]:
        """The score of each metric by name; with `items` also a list with each caption's score."""
        configured = None if self.config_name == "default" else self.config_name
        lists = [[each] if isinstance(each, str) else list(each) for each in references]
        results = score(
            candidates=list(predictions), references=lists, metrics=metrics or configured or DEFAULT, settings=settings
        )
        scores_by_name: dict[str, Any] = {name: scores.score for name, scores in results.items()}
        if items:
            scores_by_name |= {f"{name} items": scores.items.array.tolist() for name, scores in results.items()}
        return scores_by_name


__all__ = ["PATH", "CaptionScores"]
