"""capmeter's metrics as a module of Hugging Face `evaluate`, loaded by path, without a network.

    import evaluate
    from capmeter.integrations.evaluate import PATH
    scorer = evaluate.load(PATH, "cider-d,rouge-l")                  # was: evaluate.load("rouge")

>>> scorer = CaptionScores(config_name="rouge-l")
>>> scorer.add_batch(predictions=["a dog runs"], references=[["a dog runs", "a dog is running"]])
>>> scorer.add(prediction="two cats", reference=["two cats sleep"])
>>> {name: round(score, 4) for name, score in scorer.compute().items()}
{'rouge-l': 0.8861}

The scores are those of `capmeter.score` on the same captions. The configuration's name says which metrics are computed,
`compute(metrics=...)` overrides it. `compute(items=True)` adds each caption's scores, in their order, under
`"cider-d items"`. With `num_process` and `process_id` the predictions of several processes are scored by the first, in
the order of processes: `evaluate` brings them together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import datasets
import evaluate

from capmeter.metrics.base import Metric
from capmeter.metrics.evaluation import score
from capmeter.settings import Settings

PATH = __file__
"""What `evaluate.load` is given."""
DEFAULT = ("bleu-4", "rouge-l", "cider-d")


class CaptionScores(evaluate.Metric):  # type: ignore[misc, unused-ignore]
    """Caption metrics with `evaluate`'s interface."""

    def _info(self) -> evaluate.MetricInfo:
        text = datasets.Value("string")
        several = datasets.Features({"predictions": text, "references": datasets.Sequence(text)})
        single = datasets.Features({"predictions": text, "references": text})
        return evaluate.MetricInfo(
            description="Scores of image captions by capmeter's metrics.",
            citation="",
            inputs_description="predictions: captions; references: for each one or several captions by people",
            features=[several, single],
        )

    def _compute(
        self,
        predictions: Sequence[str],
        references: Sequence[Any],
        metrics: str | Iterable[str | Metric] | None = None,
        items: bool = False,
        settings: Settings | None = None,
    ) -> dict[str, Any]:
        """The score of each metric by name; with `items` also a list with each caption's score."""
        named = None if self.config_name == "default" else self.config_name
        lists = [[each] if isinstance(each, str) else list(each) for each in references]
        found = score(
            candidates=list(predictions), references=lists, metrics=metrics or named or DEFAULT, settings=settings
        )
        scores: dict[str, Any] = {name: each.score for name, each in found.items()}
        return scores | ({f"{name} items": each.items.array.tolist() for name, each in found.items()} if items else {})


__all__ = ["PATH", "CaptionScores"]
