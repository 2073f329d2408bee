"""The area under the ROC curve: how probably does a positive item score above a negative one?

    AUC = (pairs with the positive above + half the pairs with equal scores) / (positives × negatives)

1 if every positive is above every negative, ½ for scores that say nothing. The weights are those of items, so that a
bootstrap resamples positives and negatives alike.

>>> RocArea([1, 1, 0, 0], [0.9, 0.3, 0.3, 0.1])()  # 3 of 4 pairs are ordered, and one is tied
0.875
"""

from __future__ import annotations

from typing import Any

import numpy as np

from capmeter.core.errors import InputError
from capmeter.stats.kendall import Array, Numbers, paired, resamples_of


class RocArea:
    """The area under the ROC curve, for any weights.

    Args:
        positive: 1 for items that should score higher, 0 for others (items).
        scores: higher means more probably positive (items).

    Raises:
        InputError: wrong shapes; a label that is not 0 or 1; only one of the two occurs.
    """

    symbol = "AUC"

    def __init__(self, positive: Numbers, scores: Numbers) -> None:
        labels, values = paired(positive, scores)
        if set(labels.tolist()) != {0.0, 1.0}:
            raise InputError(
                "expected 1 or 0 for every item, and at least one of each, to compute an area under a curve"
            )
        self._order = np.argsort(values, kind="stable")
        ordered = values[self._order]
        self._ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))  # the last item of each group
        self._labels = labels[self._order]

    def __call__(self, weights: Numbers | None = None) -> Any:
        """A float for weights None or [n], float64[resamples] for [resamples, n]; ½ where a label is absent."""
        weight_table = resamples_of(weights, len(self._labels)).astype(float)[:, self._order]
        positives, negatives = (
            np.cumsum(weight_table * side, axis=1)[:, self._ends] for side in (self._labels, 1 - self._labels)
        )
        negatives_below = negatives - np.diff(negatives, axis=1, prepend=0.0) / 2
        ordered_pairs = (np.diff(positives, axis=1, prepend=0.0) * negatives_below).sum(axis=1)
        total_pairs = positives[:, -1] * negatives[:, -1]
        values: Array = np.divide(ordered_pairs, total_pairs, out=np.full(len(total_pairs), 0.5), where=total_pairs > 0)
        return float(values[0]) if weights is None or np.ndim(weights) == 1 else values
