"""Pools the values of a candidate with each of its references: their maximum, mean or minimum.

>>> from capmeter.captions.caption_set import Caption
>>> two = CaptionSet.from_captions([Caption("1", "1", "a", ("b", "c")), Caption("2", "2", "a", ("b",))])
>>> pool_over_references(np.array([0.25, 0.75, 0.5]), two, "mean").tolist()
[0.5, 0.5]
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from capmeter.captions.caption_set import CaptionSet
from capmeter.evaluation.base import Floats

Pooling = Literal["mean", "max", "min"]


def pool_over_references(values: Floats, part: CaptionSet, pooling: Pooling) -> Floats:
    """Pools values per reference to values per caption, (captions, …).

    Args:
        values: (references, …), in the order of `part.references.values`.
        part: the captions; each must have a reference.
        pooling: mean, max or min.
    """
    starts = part.references.offsets[:-1]
    if pooling == "mean":
        lengths = part.references.lengths.reshape(-1, *(1,) * (values.ndim - 1))
        mean: Floats = np.add.reduceat(values, starts, axis=0) / lengths
        return mean
    pooled: Floats = (np.maximum if pooling == "max" else np.minimum).reduceat(values, starts, axis=0)
    return pooled
