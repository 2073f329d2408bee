"""Shares of a total that may be 0, F1, and how well a score finds positives: average precision, area under a curve.

With the items in descending order of score, equal scores together, P and R the precision and recall after each group:

    AP  = Σ (R_k − R_{k−1}) P_k
    AUC = (pairs with the positive above + half the pairs with equal scores) / (positives × negatives)

Both are 1 if every positive is above every negative. Scores that say nothing have the share of positives, and ½.

>>> ratio([1, 2, 0], [2, 0, 0]).tolist(), f1(np.array([0.5, 0.0]), np.array([1.0, 0.0])).round(3).tolist()
([0.5, 0.0, 0.0], [0.667, 0.0])
>>> AveragePrecision([1, 0, 1, 0], [0.9, 0.8, 0.7, 0.1])()  # (1 + 2/3) / 2
0.8333333333333333
>>> RocArea([1, 1, 0, 0], [0.9, 0.3, 0.3, 0.1])()  # 3 of 4 pairs are ordered, and one is tied
0.875
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from capmeter.core.errors import InputError
from capmeter.stats.kendall import Array, Numbers, paired, resamples_of

Floats = NDArray[np.float64]


def ratio(numerator: Any, denominator: Any) -> Floats:
    """The quotient, 0 where the denominator is not positive.

    Args:
        numerator: numbers.
        denominator: numbers, of a shape that broadcasts with that of the numerator.
    """
    numerator, denominator = np.asarray(numerator, np.float64), np.asarray(denominator, np.float64)
    zeros = np.zeros(np.broadcast_shapes(numerator.shape, denominator.shape))
    result: Floats = np.divide(numerator, denominator, out=zeros, where=denominator > 0)
    return result


def f1(precision: Floats, recall: Floats) -> Floats:
    """The harmonic mean, 0 where both are 0."""
    return ratio(2 * precision * recall, precision + recall)


class AveragePrecision:
    """Average precision, for any weights.

    Args:
        positive: 1 for items to be found, 0 for others (items).
        scores: higher means more probably positive (items).

    Raises:
        InputError: wrong shapes; a label that is not 0 or 1; no positive.
    """

    symbol = "AP"

    def __init__(self, positive: Numbers, scores: Numbers) -> None:
        labels, values = paired(positive, scores)
        if not np.isin(labels, (0.0, 1.0)).all() or not labels.any():
            raise InputError("expected 1 or 0 for every item, and at least one 1, to compute average precision")
        self._order = np.argsort(-values, kind="stable")
        ordered = values[self._order]
        self._ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))  # the last item of each group
        self._labels = labels[self._order]

    def __call__(self, weights: Numbers | None = None) -> Any:
        """A float for weights None or [n], float64[resamples] for [resamples, n]; 0 where there is no positive."""
        weight_table = resamples_of(weights, len(self._labels)).astype(float)[:, self._order]
        true_positives = np.cumsum(weight_table * self._labels, axis=1)[:, self._ends]
        listed_count = np.cumsum(weight_table, axis=1)[:, self._ends]
        precision = ratio(true_positives, listed_count)
        gained_positives = np.diff(true_positives, axis=1, prepend=0.0)
        total = true_positives[:, -1]
        values = ratio((gained_positives * precision).sum(axis=1), total)
        return float(values[0]) if weights is None or np.ndim(weights) == 1 else values


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
