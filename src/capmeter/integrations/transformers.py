"""capmeter's metrics as `compute_metrics` of a `transformers` trainer.

    from capmeter.integrations.transformers import compute_metrics
    trainer = Seq2SeqTrainer(..., compute_metrics=compute_metrics(tokenizer, "cider-d,rouge-l"))

The trainer's predictions are token ids (`predict_with_generate=True`), or logits, of which the most probable tokens are
used. The tokenizer decodes them and the labels, without special tokens. `references` has the human captions in the
order of the evaluation set, if images have several; without it the decoded label is the only reference.

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

from capmeter.core.errors import InputError
from capmeter.core.messages import format_count
from capmeter.core.settings import Settings
from capmeter.evaluation.base import Metric
from capmeter.evaluation.registry import parse_list
from capmeter.evaluation.runner import score


def compute_metrics(
    tokenizer: Any,
    metrics: str | Iterable[str | Metric] = ("bleu-4", "rouge-l", "cider-d"),
    *,
    references: Sequence[Sequence[str]] | None = None,
    settings: Settings | None = None,
) -> Callable[[Any], dict[str, float]]:
    """Makes the function that a trainer calls with its predictions and labels; it returns each metric's score by name.

    Args:
        tokenizer: a tokenizer or a processor: anything with `batch_decode`, and a `pad_token_id` if there is padding.
        metrics: names or metrics, in a list or one comma-separated text.
        references: for each row of the evaluation set the human captions; None: the decoded labels.
        settings: for neural metrics: `capmeter.Settings(device="cuda")`.

    Raises:
        InputError: when called: the numbers of references and predictions differ, predictions have another shape, or
            logits are not finite.
    """
    parsed_metrics = parse_list(metrics)
    inner_tokenizer = getattr(tokenizer, "tokenizer", tokenizer)
    padding_ids = (getattr(inner_tokenizer, "pad_token_id", None), getattr(inner_tokenizer, "eos_token_id", None))
    padding_id = next((token_id for token_id in padding_ids if token_id is not None), 0)

    def decode(outputs: Any, what: str) -> list[str]:
        """Decodes token ids (rows, length), or the most probable ones of logits (rows, length, vocabulary)."""
        array = np.asarray(outputs[0] if isinstance(outputs, tuple) else outputs)
        if array.ndim == 3:
            broken = np.argwhere(~np.isfinite(array.max(-1, initial=-np.inf)))  # of a NaN the maximum is NaN
            if len(broken):
                row, position = broken[0].tolist()
                raise InputError(
                    f"the trainer's {what}: the logits of {format_count(len(broken), 'position')} are not finite (the "
                    f"first: row {row}, position {position}), so no token is the most probable; has the training "
                    "diverged?"
                )
            array = array.argmax(-1)
        if array.ndim != 2 or not np.issubdtype(array.dtype, np.integer):
            raise InputError(
                f"the trainer's {what} have the shape {array.shape} of {array.dtype}, expected token ids [rows, length]"
                " (Seq2SeqTrainingArguments(predict_with_generate=True)) or logits [rows, length, vocabulary]"
            )
        padded_ids = np.where(array < 0, padding_id, array)  # -100 marks positions that the loss ignores
        return [text.strip() for text in tokenizer.batch_decode(padded_ids, skip_special_tokens=True)]

    def compute(prediction: Any) -> dict[str, float]:
        candidates = decode(prediction[0], "predictions")
        lists = (
            [[text] for text in decode(prediction[1], "labels")] if references is None else list(map(list, references))
        )
        if len(lists) != len(candidates):
            raise InputError(
                f"the trainer predicted {len(candidates):,} captions, but there are references of {len(lists):,}; "
                "give them in the order of the evaluation's data set, one list for each row"
            )
        results = score(candidates=candidates, references=lists, metrics=parsed_metrics, settings=settings)
        return {metric_name: metric_scores.score for metric_name, metric_scores in results.items()}

    return compute


__all__ = ["compute_metrics"]
