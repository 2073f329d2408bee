"""Checks on what a metric returns, since metrics may come from other packages.

Rows must be finite float64 of shape [captions, columns], and scores one finite number per caption; otherwise a
`MetricError` names the metric, its package and the package's version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from capmeter.errors import MetricError
from capmeter.metrics.base import Measurement, Metric
from capmeter.metrics.registry import METRICS


def checked(metric: Metric, found: Any, ids: Sequence[str]) -> Measurement:
    """The measurement itself, if its rows match the metric's declaration."""
    expected = (len(ids), len(metric.columns))
    if not isinstance(found, Measurement):
        raise MetricError(f"{described(metric)}: measure returned {type(found).__name__}; expected a Measurement")
    values: Any = found.values
    if not isinstance(values, np.ndarray) or values.shape != expected or values.dtype != np.float64:
        came = f"{values.dtype}{list(values.shape)}" if isinstance(values, np.ndarray) else type(values).__name__
        raise MetricError(
            f"{described(metric)}: measure returned {came} for {len(ids)} captions; expected float64{list(expected)}: "
            f"one row per caption, with the columns {', '.join(metric.columns)}"
        )
    if not np.isfinite(values).all():
        first = [ids[k] for k in np.flatnonzero(~np.isfinite(values).all(axis=1))[:5].tolist()]
        raise MetricError(f"{described(metric)}: a value is not a finite number for the captions {first}")
    return found


def checked_scores(metric: Metric, each: Any, whole: Any, ids: Sequence[str]) -> None:
    """A `MetricError` unless `finish` gave finite scores: `each` for the captions' rows, `whole` for their sum."""
    if not isinstance(each, Mapping) or next(iter(each), None) != "score":
        raise MetricError(f'{described(metric)}: finish must return a dict with "score" first')
    for name in each:
        for values, shape in ((each[name], (len(ids),)), (whole[name], ())):
            if np.shape(values) != shape:
                raise MetricError(
                    f"{described(metric)}: finish returned {name} of shape {list(np.shape(values))} for counts of "
                    f"shape {list(shape)}; expected the shape of counts"
                )
        if not (np.isfinite(each[name]).all() and np.isfinite(whole[name])):
            first = [ids[k] for k in np.flatnonzero(~np.isfinite(each[name]))[:5].tolist()]
            raise MetricError(f"{described(metric)}: {name} is not a finite number for the captions {first}")


def described(metric: Metric) -> str:
    """The metric; if it is not capmeter's own, followed by its package and version, or its module."""
    module = type(metric).__module__
    if module.startswith("capmeter."):
        return str(metric)
    return f"{metric} (from {METRICS.package(metric) or f'the module {module}'})"
