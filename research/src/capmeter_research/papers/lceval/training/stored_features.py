"""Features of captions, computed once and stored in a folder.

The rows of a metric are stored by its signature and candidate and references: when a parser or word vectors
change, only the metrics that use them run again. Metrics that depend on the whole corpus (CIDEr-D) run each time.
Blocks are stored as they are computed, so that an interrupted computation is resumed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.disk_cache import DiskCache
from capmeter.core.progress import task
from capmeter.core.settings import MemoryCache, ResultCache, Settings
from capmeter.evaluation.base import Floats, Measurement, Metric, RunContext
from capmeter.evaluation.runner import Evaluation
from capmeter_research.papers.lceval.features import Features

_BLOCK = 4096


def feature_matrix(
    captions: CaptionSet, features: Features, folder: Path | None = None, *, settings: Settings | None = None
) -> Floats:
    """The features, (captions, features), from the folder where they are stored, else computed and stored there.

    Args:
        captions: to measure.
        features: names and order.
        folder: None: nothing is stored.
        settings: where encoders run.
    """
    metrics = tuple(dict.fromkeys(features.metrics().values()))
    rows = measure_rows(captions, metrics, folder, settings=settings)
    context = RunContext(
        measurements={metric: Measurement(values) for metric, values in rows.items()},
        scores={metric: metric.from_sums(values, np.ones(len(values))) for metric, values in rows.items()},
    )
    return features.compute(captions, context)


def measure_rows(
    captions: CaptionSet, metrics: Sequence[Metric], folder: Path | None = None, *, settings: Settings | None = None
) -> dict[Metric, Floats]:
    """The rows that each metric measures, (captions, columns).

    Args:
        captions, folder, settings: as in `feature_matrix`.
        metrics: to measure.
    """
    evaluation = Evaluation(tuple(metrics), settings or Settings()).with_collected_states(captions)
    corpus_metrics = [metric for metric in metrics if metric.corpus_state() is not None]
    corpus_evaluation = Evaluation(tuple(corpus_metrics), evaluation.settings, evaluation.states)
    cache = ResultCache(MemoryCache(0), None if folder is None else DiskCache(folder))
    rows: dict[Metric, list[Floats]] = {metric: [] for metric in metrics}
    with task("features", total=len(captions)) as advance:
        for block_start in range(0, len(captions), _BLOCK):
            # caption sets per block: the parses of a large corpus would not all fit in memory
            block = CaptionSet.from_captions(
                captions[caption_id] for caption_id in captions.ids[block_start : block_start + _BLOCK]
            )
            contents = [json.dumps([caption.candidate, *caption.references]).encode("ascii") for caption in block]
            for metric in metrics:
                if metric not in corpus_metrics:
                    measure = partial(_measure, Evaluation((metric,), evaluation.settings), metric, block)
                    rows[metric] += cache.results(evaluation.signature(metric), contents, measure, batch_size=_BLOCK)
            for metric, measurement in corpus_evaluation.measure(block).items():
                if metric in rows:
                    rows[metric] += list(measurement.values)
            advance(len(block))
    return {metric: np.stack(metric_rows) for metric, metric_rows in rows.items()}


def _measure(evaluation: Evaluation, metric: Metric, block: CaptionSet, rows: list[int]) -> list[Floats]:
    """The row of each of these captions."""
    chunks = block.select(rows).chunks(metric.PART_SIZE)
    return [row for chunk in chunks for row in evaluation.measure(chunk)[metric].values]
