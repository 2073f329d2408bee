"""What a metric gives is checked before anybody relies on it: metrics may come from other packages.

Rows must be float64 of the shape [captions, columns] and finite, and scores one finite number for each caption; else a
`MetricError` names the metric, and the package and version that it comes from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from capmeter.errors import MetricError
from capmeter.metrics.base import Measurement, Metric
from capmeter.metrics.registry import METRICS


def checked(metric: Metric, found: Any, ids: Sequence[str]) -> Measurement:
    """The measurement itself, if its rows are what the metric says of itself."""
    expected = (len(ids), len(metric.columns))
    if not isinstance(found, Measurement):
        raise MetricError(f"{described(metric)}: measure gave {type(found).__name__}, expected a Measurement")
    values: Any = found.values
    if not isinstance(values, np.ndarray) or values.shape != expected or values.dtype != np.float64:
        came = f"{values.dtype}{list(values.shape)}" if isinstance(values, np.ndarray) else type(values).__name__
        raise MetricError(
            f"{described(metric)}: measure gave {came} for {len(ids)} captions, expected float64{list(expected)}: "
            f"one row per caption, with the columns {', '.join(metric.columns)}"
        )
    if not np.isfinite(values).all():
        first = [ids[k] for k in np.flatnonzero(~np.isfinite(values).all(axis=1))[:5].tolist()]
        raise MetricError(f"{described(metric)}: a value is not a finite number for the captions {first}")
    return found


def checked_scores(metric: Metric, each: Any, whole: Any, ids: Sequence[str]) -> None:
    """A `MetricError` unless `finish` made finite scores: `each` of the captions' rows, `whole` of their sum."""
    if not isinstance(each, Mapping) or next(iter(each), None) != "score":
        raise MetricError(f'{described(metric)}: finish must give a dict with "score" first')
    for name in each:
        for values, shape in ((each[name], (len(ids),)), (whole[name], ())):
            if np.shape(values) != shape:
                raise MetricError(
                    f"{described(metric)}: finish gave {name} of the shape {list(np.shape(values))} for counts of the "
                    f"shape {list(shape)}; expected the shape of counts"
                )
        if not (np.isfinite(each[name]).all() and np.isfinite(whole[name])):
            first = [ids[k] for k in np.flatnonzero(~np.isfinite(each[name]))[:5].tolist()]
            raise MetricError(f"{described(metric)}: {name} is not a finite number for the captions {first}")


def described(metric: Metric) -> str:
    """The metric; one that is not of capmeter with the package and version, or the module, that it comes from."""
    module = type(metric).__module__
    if module.startswith("capmeter."):
        return str(metric)
    return f"{metric} (from {METRICS.package(metric) or f'the module {module}'})"
