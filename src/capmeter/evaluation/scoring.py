"""`score` and `evaluate`: captions and metrics in, `Results` out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

from capmeter.captions.caption_set import CaptionSet
from capmeter.captions.load import load
from capmeter.core.errors import InputError
from capmeter.core.settings import Settings
from capmeter.evaluation.base import Metric
from capmeter.evaluation.pools import WorkerPool
from capmeter.evaluation.registry import parse_list
from capmeter.evaluation.requirements import check_needs, is_needed
from capmeter.evaluation.results import Results
from capmeter.evaluation.runner import Evaluation, Source

Systems = Mapping[str, CaptionSet] | Mapping[str, os.PathLike[str]]


@overload
def score(
    captions: Systems,
    metrics: str | Iterable[str | Metric] = ...,
    *,
    references: Any = None,
    workers: int | WorkerPool = 1,
    settings: Settings | None = None,
) -> dict[str, Results]: ...


@overload
def score(
    captions: Any = None,
    metrics: str | Iterable[str | Metric] = ...,
    *,
    candidates: Any = None,
    references: Any = None,
    workers: int | WorkerPool = 1,
    settings: Settings | None = None,
) -> Results: ...


def score(
    captions: Any = None,
    metrics: str | Iterable[str | Metric] = ("bleu-4", "rouge-l", "cider-d"),
    *,
    candidates: Any = None,
    references: Any = None,
    workers: int | WorkerPool = 1,
    settings: Settings | None = None,
) -> Results | dict[str, Results]:
    """Scores captions with metrics.

    Args:
        captions: a `CaptionSet` from `capmeter.load`, or a path; or several systems, as a dict name → any of these (a
            path as `pathlib.Path`, since text may be a caption).
        metrics: names or metrics, in a list or one comma-separated text.
        candidates: instead of `captions`: a list of captions, or a dict id → caption.
        references: with `candidates`: a list of lists, or a dict id → list. With a path as `captions`: their file.
        workers: number of processes; more than one pays for long runs (see `capmeter.evaluation.pools`).
        settings: device, precision, threads, cache: `capmeter.Settings(device="cuda")`; None: from the environment.

    Returns:
        `Results`, by metric name: `results["cider-d"].score`, `.items[id]`, `.parts`, `.notes`, `.signature`; of
        several systems a dict of them by name.

    Raises:
        InputError: captions without references (the first five ids are named), unknown metrics, wrong shapes.

    >>> results = score(candidates=["a dog runs"], references=[["a dog runs", "a dog is running"]], metrics="rouge-l")
    >>> results["rouge-l"].score, results["rouge-l"].items["0"]
    (1.0, 1.0)
    """
    _refuse_text(captions, metrics)
    parsed = parse_list(metrics)
    if _is_systems(captions):
        if candidates is not None:
            raise InputError("expected captions, or candidates= with references=, and not both")
        return {
            str(system_name): score(system_captions, parsed, references=references, workers=workers, settings=settings)
            for system_name, system_captions in captions.items()
        }
    if (captions is None) == (candidates is None):
        raise InputError("expected either captions, or candidates= with references=, but not both")
    on_missing: Any = "error" if is_needed("references", parsed) else "keep"
    if captions is None:
        source: Source = load(candidates, references, on_missing=on_missing)
    elif isinstance(captions, CaptionSet) or _yields_sets(captions):
        if references is not None:
            raise InputError("these captions already have references; leave references= out, or pass it to load()")
        source = captions
    else:
        source = load(captions, references, on_missing=on_missing)
    return evaluate(source, parsed, workers=workers, settings=settings)


def _refuse_text(captions: Any, metrics: Any) -> None:
    """An `InputError` for `score("a dog", "a dog runs")`, which says how to pass captions in memory."""
    if not isinstance(captions, str) or not captions.strip() or Path(captions).exists():
        return
    if " " in captions.strip() or (isinstance(metrics, str) and " " in metrics.strip() and "(" not in metrics):
        if os.path.sep in captions or captions.endswith((".json", ".jsonl", ".csv", ".tsv", ".parquet", ".gz")):
            return  # a file that does not exist, as `load` reports
        raise InputError(
            f"{captions!r:.80} is not a file; to score captions in memory, pass lists: "
            'score(candidates=["a dog"], references=[["a dog runs", "the dog"]], metrics="cider-d")'
        )


def _yields_sets(captions: Any) -> bool:
    return not isinstance(captions, str | Sequence | Mapping) and hasattr(captions, "__iter__")


def _is_systems(captions: Any) -> bool:
    """Whether these are systems by name, and not captions by id."""
    return (
        isinstance(captions, Mapping)
        and len(captions) > 0
        and all(isinstance(each, CaptionSet | os.PathLike) or _yields_sets(each) for each in captions.values())
    )


def evaluate(
    source: Source,
    metrics: Sequence[Metric],
    *,
    corpus: Source | None = None,
    workers: int | WorkerPool = 1,
    settings: Settings | None = None,
) -> Results:
    """Runs metrics on captions.

    Args:
        source: a `CaptionSet`, or a list of them.
        metrics: the metrics.
        corpus: the captions from which corpus states (document frequencies …) are collected; by default the source.
            Captions that occur several times with the same references (perturbed captions) must not count double.
        workers: the number of processes, or a pool.
        settings: device, precision, threads, cache; None: from the environment.

    Returns:
        The scores of each metric.

    Raises:
        InputError: there are no captions, or they lack what a metric needs.
        MetricError: a metric returned something else than finite numbers in the declared shape.
    """
    evaluation = Evaluation(tuple(metrics), settings or Settings())
    if isinstance(source, CaptionSet):
        check_needs(source, evaluation.ordered_metrics)
    return evaluation.with_collected_states(source if corpus is None else corpus, workers).run(source, workers)
