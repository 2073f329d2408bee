"""capmeter's metrics as `compute_metrics` of a `transformers` trainer.

    from capmeter.integrations.transformers import compute_metrics
    trainer = Seq2SeqTrainer(..., compute_metrics=compute_metrics(tokenizer, "cider-d,rouge-l"))

The trainer's predictions are token ids (`predict_with_generate=True`) or logits, of which the likeliest tokens are
taken; they and the labels are decoded by the tokenizer, without special tokens. `references` gives the captions of
people in the order of the evaluation's data set, where there are several of an image; without them the decoded label is
the only reference.

>>> class Words:
...     pad_token_id = 0
...     def batch_decode(self, rows, skip_special_tokens):
...         return [" ".join(["", "a", "dog", "runs", "sleeps"][i] for i in row if i) for row in rows]
>>> scorer = compute_metrics(Words(), "rouge-l", references=[["a dog runs", "a dog is running"], ["a dog sleeps"]])
>>> scorer((np.array([[1, 2, 3], [1, 2, 4]]), np.array([[1, 2, 3], [1, 2, -100]])))
{'rouge-l': 1.0}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from capmeter.errors import InputError
from capmeter.metrics.base import Metric
from capmeter.metrics.evaluation import score
from capmeter.metrics.registry import parse_list
from capmeter.settings import Settings


def compute_metrics(
    tokenizer: Any,
    metrics: str | Iterable[str | Metric] = ("bleu-4", "rouge-l", "cider-d"),
    *,
    references: Sequence[Sequence[str]] | None = None,
    settings: Settings | None = None,
) -> Callable[[Any], dict[str, float]]:
    """A function that a trainer calls with its predictions and labels, and that returns each metric's score by name.

    Args:
        tokenizer: a tokenizer or a processor: anything with `batch_decode`, and a `pad_token_id` if there is padding.
        metrics: names or metrics, in a list or one comma-separated text.
        references: for each row of the evaluation's data set the captions of people; None: the decoded labels.
        settings: for neural metrics: `capmeter.Settings(device="cuda")`.

    Raises:
        InputError: when called, if there are not as many references as predictions, or if these are of another shape.
    """
    chosen = parse_list(metrics)
    own = getattr(tokenizer, "tokenizer", tokenizer)
    padding = next(
        (id for id in (getattr(own, "pad_token_id", None), getattr(own, "eos_token_id", None)) if id is not None), 0
    )

    def decoded(given: Any, what: str) -> list[str]:
        """The texts of token ids [rows, length]; of logits [rows, length, vocabulary] the likeliest tokens'."""
        array = np.asarray(given[0] if isinstance(given, tuple) else given)
        if array.ndim == 3:
            array = array.argmax(-1)
        if array.ndim != 2 or not np.issubdtype(array.dtype, np.integer):
            raise InputError(
                f"the trainer's {what} have the shape {array.shape} of {array.dtype}, expected token ids [rows, length]"
                " (Seq2SeqTrainingArguments(predict_with_generate=True)) or logits [rows, length, vocabulary]"
            )
        padded = np.where(array < 0, padding, array)  # -100 marks what the loss leaves out
        return [text.strip() for text in tokenizer.batch_decode(padded, skip_special_tokens=True)]

    def computed(prediction: Any) -> dict[str, float]:
        predictions, labels = prediction[0], prediction[1]
        candidates = decoded(predictions, "predictions")
        if references is None:
            people: Sequence[Sequence[str]] = [[text] for text in decoded(labels, "labels")]
        else:
            people = references
        if len(people) != len(candidates):
            raise InputError(
                f"the trainer predicted {len(candidates):,} captions, but there are references of {len(people):,}; "
                "give them in the order of the evaluation's data set, one list for each row"
            )
        found = score(
            candidates=candidates, references=[list(texts) for texts in people], metrics=chosen, settings=settings
        )
        return {name: each.score for name, each in found.items()}

    return computed


__all__ = ["compute_metrics"]
