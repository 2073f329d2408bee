"""What evaluation frameworks hand over, a model's answers with their references, scored in one pass.

The adapters of lmms-eval, VLMEvalKit and Inspect share this: captions are tokenised once for all metrics, ids stay, and
references that cannot be those of the captions are refused. Nothing here imports a framework.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from capmeter.captions.load import load
from capmeter.captions.text_checks import ReferenceFit
from capmeter.core.errors import InputError
from capmeter.core.messages import list_names
from capmeter.core.settings import Settings
from capmeter.evaluation.base import CapmeterWarning, Metric, merge_notes
from capmeter.evaluation.registry import parse_list
from capmeter.evaluation.results import Results
from capmeter.evaluation.runner import evaluate

OnMismatch = Literal["error", "warn"]
ENDS = ("", "_low", "_high")
"""What follows a metric's name where frameworks report a score, and both ends of its interval."""


def parse_metrics(metrics: str | Iterable[str | Metric] | Mapping[str, str | Metric]) -> dict[str, Metric]:
    """Metrics by the names that they were given: capmeter's, coco-caption's such as `CIDEr`, or the keys of a mapping.

    >>> [(name, str(metric)) for name, metric in parse_metrics(["CIDEr", "rouge-l"]).items()]
    [('CIDEr', 'cider-d'), ('rouge-l', 'rouge-l')]
    """
    if isinstance(metrics, Mapping) and metrics:
        return {metric_name: parse_metrics([each]).popitem()[1] for metric_name, each in metrics.items()}
    named_metrics: dict[str, Metric] = {}
    for each in [metrics] if isinstance(metrics, str) or not isinstance(metrics, Iterable) else list(metrics) or [""]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CapmeterWarning)  # that CIDEr is cider-d: the signature says so
            parsed = parse_list(each if isinstance(each, str) else [each])
        named_metrics |= {str(each): parsed[0]} if len(parsed) == 1 else {str(metric): metric for metric in parsed}
    return named_metrics


def score_answers(
    rows: Sequence[Mapping[str, Any]],
    metrics: Iterable[Metric],
    *,
    on_mismatch: OnMismatch = "error",
    settings: Settings | None = None,
) -> Results:
    """Scores answers as `capmeter.score` scores the same captions, each sentence tokenised once for all metrics.

    Notes on them, such as error messages in place of captions, are warnings, since frameworks show the scores alone.

    Args:
        rows: native rows: `image_id`, `candidate`, `references`; several rows of an image are several candidates.
        metrics: what is computed.
        on_mismatch: what happens if the references cannot be those of the captions: "error" or "warn".
        settings: device, precision, threads, cache; None: from the environment.

    Raises:
        InputError: there are no answers, a row is not as expected, or the references are not those of the captions.
    """
    if on_mismatch not in ("error", "warn"):
        raise InputError(f"on_mismatch is {on_mismatch!a}, expected 'error' or 'warn'")
    if not rows:
        raise InputError("there are no answers to score; did the framework run the model on any document?")
    captions = load([dict(row) for row in rows], format="json", on_missing="keep")
    if missing_ids := [each.image_id for each in captions if not each.references]:
        raise InputError(f"answers without references: {list_names(missing_ids)}; expected a list of captions for each")
    if on_mismatch == "error" and (mismatch := ReferenceFit.measure(captions).describe_mismatch()):
        raise InputError(f"not scored: {mismatch} (on_mismatch='warn' scores them all the same)")
    results = evaluate(captions, tuple(dict.fromkeys(metrics)), settings=settings)
    for reason, ids in merge_notes([results.notes, *(scores.notes for scores in results.values())]).items():
        warnings.warn(f"{reason.replace('_', ' ')}: {list_names(ids)}", CapmeterWarning, stacklevel=3)
    return results


def with_intervals(results: Results, metrics: Mapping[str, Metric]) -> dict[str, tuple[float, float, float]]:
    """The score of each metric, by the name that it was given, and both ends of its 95 % interval."""
    intervals = results.intervals()
    return {name: (results[metric].score, *intervals[str(metric)]) for name, metric in metrics.items()}


__all__ = ["ENDS", "OnMismatch", "parse_metrics", "score_answers", "with_intervals"]
