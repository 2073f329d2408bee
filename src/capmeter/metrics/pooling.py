"""One value of the values with several references: their maximum, mean or minimum.

>>> from capmeter.captions.model import Caption
>>> two = CaptionSet.from_captions([Caption("1", "1", "a", ("b", "c")), Caption("2", "2", "a", ("b",))])
>>> pool_over_references(np.array([0.25, 0.75, 0.5]), two, "mean").tolist()
[0.5, 0.5]
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from capmeter.captions.model import CaptionSet
from capmeter.metrics.base import Floats

Pooling = Literal["mean", "max", "min"]


def pool_over_references(values: Floats, part: CaptionSet, pooling: Pooling) -> Floats:
    """float64[captions, ...] from one row per reference (as `part.references.values`); each caption has references."""
    starts = part.references.offsets[:-1]
    if pooling == "mean":
        lengths = part.references.lengths.reshape(-1, *(1,) * (values.ndim - 1))
        mean: Floats = np.add.reduceat(values, starts, axis=0) / lengths
        return mean
    pooled: Floats = (np.maximum if pooling == "max" else np.minimum).reduceat(values, starts, axis=0)
    return pooled
