"""VLMEvalKit's caption scorer, with tokens, without Java, and its evaluation of a prediction file.

    from vlmeval.dataset.image_caption import ImageCaptionDataset
    from capmeter.integrations.vlmevalkit import evaluate
    ImageCaptionDataset.evaluate = staticmethod(evaluate)

or, for the scorer alone, `vlmeval.dataset.image_caption.COCO_Caption_Scorer = COCO_Caption_Scorer`. VLMEvalKit's own
scorer gives raw sentences to scorers that expect tokens, and its evaluation runs the answers of the file as Python
code. Here captions are tokenised, answers are read as lists, and rows have the ids of the file (`index`).

>>> scorer = COCO_Caption_Scorer({"7": ["A dog runs."]}, {"7": ["a dog runs", "The dog is running."]}, ["ROUGE_L"])
>>> scores = scorer.compute_scores()
ROUGE_L: 100.0
ROUGE_L_low: 100.0
ROUGE_L_high: 100.0
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from capmeter.captions.load import load
from capmeter.captions.rows import image_key
from capmeter.core.errors import InputError
from capmeter.core.messages import describe, list_names
from capmeter.core.output_files import write_atomic
from capmeter.evaluation.base import Metric
from capmeter.integrations.model_answers import ENDS, OnMismatch, parse_metrics, score_answers, with_intervals

BLEU = ("Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4")
DEFAULT = (*BLEU, "ROUGE_L", "CIDEr")
"""What VLMEvalKit reports."""


class COCO_Caption_Scorer:  # noqa: N801 (VLMEvalKit's name)
    """Scores captions with the shape of VLMEvalKit's class.

    Args:
        ref: the candidates: id → list of one caption.
        gt: the references: id → list of captions.
        metrics: names of metrics; coco-caption's (`CIDEr`, `Bleu_4`) are understood.
        on_mismatch: what happens if the references cannot be those of the captions: "error" or "warn".
    """

    def __init__(
        self,
        ref: Mapping[Any, Sequence[str]],
        gt: Mapping[Any, Sequence[str]],
        metrics: str | Iterable[str | Metric] = DEFAULT,
        *,
        on_mismatch: OnMismatch = "error",
    ) -> None:
        self.metrics, self.on_mismatch = parse_metrics(metrics), on_mismatch
        self.ref, self.gt = ({image_key(k, "ref, gt", "an id"): v for k, v in side.items()} for side in (ref, gt))
        only = [list_names(sorted(a.keys() - b.keys())) for a, b in ((self.ref, self.gt), (self.gt, self.ref))]
        if any(only) or len(self.ref) < len(ref) or len(self.gt) < len(gt):
            raise InputError(
                "ref and gt must have the same ids, each once, whether as a number or as text; only in ref: "
                f"{only[0] or 'none'}; only in gt: {only[1] or 'none'}"
            )

    def compute_scores(self) -> dict[str, float | list[float]]:
        """The scores times 100, printed and returned: `Bleu` (all four orders), `ROUGE_L`, `CIDEr`, each also with
        both ends of its 95 % interval (`CIDEr_low`, `CIDEr_high`).

        Raises:
            InputError: the references cannot be those of the captions, or a value is not a list of captions.
        """
        answer_rows = []
        for image_id, candidates in self.ref.items():
            if not isinstance(candidates, list | tuple) or len(candidates) != 1:
                raise InputError(f"ref[{image_id!r}] is {describe(candidates)}, expected a list of one caption")
            answer_rows.append({"image_id": image_id, "candidate": candidates[0], "references": self.gt[image_id]})
        results = score_answers(answer_rows, self.metrics.values(), on_mismatch=self.on_mismatch)
        scores: dict[str, float | list[float]] = {}
        by_metric = with_intervals(results, self.metrics)
        for k, suffix in enumerate(ENDS):
            of_metric = {metric_name: 100 * values[k] for metric_name, values in by_metric.items()}
            if all(metric_name in of_metric for metric_name in BLEU):
                scores[f"Bleu{suffix}"] = [of_metric.pop(metric_name) for metric_name in BLEU]
            scores |= {metric_name + suffix: value for metric_name, value in of_metric.items()}
        print(*(f"{metric_name}: {value}" for metric_name, value in scores.items()), sep="\n")
        return scores


def evaluate(eval_file: str | os.PathLike[str], **options: Any) -> dict[str, float | list[float]]:
    """Scores a prediction file of VLMEvalKit (a workbook, TSV or JSON), and writes `FILE_score.json` beside it.

    Args:
        eval_file: rows with `index`, `prediction` and `answer`, the references as a list or as the text of one.
        options: `metrics` and `on_mismatch`, those of `COCO_Caption_Scorer`; what VLMEvalKit passes besides concerns
            judges, and captions need none.

    Raises:
        InputError: the file is not as expected, or its references cannot be those of the captions.
    """
    captions = load(eval_file, on_missing="keep")
    ref = {caption.id: [caption.candidate] for caption in captions}
    gt = {caption.id: list(caption.references) for caption in captions}
    scorer_options = {name: options[name] for name in ("metrics", "on_mismatch") if name in options}
    scores = COCO_Caption_Scorer(ref, gt, **scorer_options).compute_scores()
    path = Path(eval_file)
    write_atomic(path.with_name(f"{path.stem}_score.json"), json.dumps(scores, indent=4))
    return scores


__all__ = ["COCO_Caption_Scorer", "evaluate"]
