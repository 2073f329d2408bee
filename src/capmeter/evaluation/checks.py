"""Checks of what a metric returns, since metrics may come from other packages.

Rows must be finite float64 of shape (captions, columns), and scores one finite number per caption; otherwise a
`MetricError` names the metric, its package and the package's version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from capmeter.core.errors import MetricError
from capmeter.core.messages import format_count
from capmeter.evaluation.base import Floats, Measurement, Metric
from capmeter.evaluation.registry import METRICS


def check_measurement(metric: Metric, measurement: Any, ids: Sequence[str]) -> Measurement:
    """Returns the measurement; a `MetricError` unless its rows match the metric's declaration."""
    expected = (len(ids), len(metric.columns))
    if not isinstance(measurement, Measurement):
        value_type = type(measurement).__name__
        raise MetricError(f"{describe_metric(metric)}: measure returned {value_type}; expected a Measurement")
    values: Any = measurement.values
    if not isinstance(values, np.ndarray) or values.shape != expected or values.dtype != np.float64:
        value_type = f"{values.dtype}{list(values.shape)}" if isinstance(values, np.ndarray) else type(values).__name__
        raise MetricError(
            f"{describe_metric(metric)}: measure returned {value_type} for {len(ids)} captions; expected "
            f"float64{list(expected)}: one row per caption, with the columns {', '.join(metric.columns)}"
        )
    if not np.isfinite(values).all():
        first_ids = [ids[k] for k in np.flatnonzero(~np.isfinite(values).all(axis=1))[:5].tolist()]
        raise MetricError(f"{describe_metric(metric)}: a value is not a finite number for the captions {first_ids}")
    return measurement


def check_scores(metric: Metric, caption_scores: Any, corpus_scores: Any, ids: Sequence[str]) -> None:
    """A `MetricError` unless `from_sums` returned finite scores for the rows of the captions and for their sum."""
    if not isinstance(caption_scores, Mapping) or next(iter(caption_scores), None) != "score":
        raise MetricError(f'{describe_metric(metric)}: from_sums must return a dict with "score" first')
    for part_name in caption_scores:
        for values, expected_shape in ((caption_scores[part_name], (len(ids),)), (corpus_scores[part_name], ())):
            if np.shape(values) != expected_shape:
                raise MetricError(
                    f"{describe_metric(metric)}: from_sums returned {part_name} of shape {list(np.shape(values))} for "
                    f"counts of shape {list(expected_shape)}; expected the shape of counts"
                )
        if not (np.isfinite(caption_scores[part_name]).all() and np.isfinite(corpus_scores[part_name])):
            first_ids = [ids[k] for k in np.flatnonzero(~np.isfinite(caption_scores[part_name]))[:5].tolist()]
            raise MetricError(
                f"{describe_metric(metric)}: {part_name} is not a finite number for the captions {first_ids}"
            )


def check_rows(
    metric: Metric, values: Floats, caption_scores: Mapping[str, Floats], corpus_scores: Mapping[str, float]
) -> None:
    """Raises a `ValueError` unless the rows give the saved scores: else no resample of them would mean anything."""
    if values.shape[1:] != (len(metric.columns),):
        raise ValueError(f"its rows do not have {format_count(len(metric.columns), 'number')}")
    with np.errstate(all="ignore"):  # rows that are damaged may give no finite score
        computed_scores = metric.from_sums(values, np.ones(len(values)))
        computed_corpus_scores = metric.from_sums(values.sum(axis=0), np.float64(len(values)))
    for part in corpus_scores:
        is_equal = np.isclose(computed_scores[part], caption_scores[part], rtol=1e-9, atol=1e-15).all()
        if not (is_equal and np.isclose(computed_corpus_scores[part], corpus_scores[part], rtol=1e-9, atol=1e-15)):
            raise ValueError(f"its rows do not give its {part}")


def describe_metric(metric: Metric) -> str:
    """The metric's name; that of another package is followed by its package and version, or its module."""
    module = type(metric).__module__
    if module.startswith("capmeter."):
        return str(metric)
    return f"{metric} (from {METRICS.package_of(metric) or f'the module {module}'})"
