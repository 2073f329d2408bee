"""Average precision of finding positives by a score: the area under the precision-recall curve, as a step function.

With the items in descending order of score, equal scores together, P and R the precision and recall after each group:

    AP = Σ (R_k − R_{k−1}) P_k

1 if every positive is above every negative; the share of positives for scores that say nothing.

>>> AveragePrecision([1, 0, 1, 0], [0.9, 0.8, 0.7, 0.1])()  # (1 + 2/3) / 2
0.8333333333333333
"""

from __future__ import annotations

from typing import Any

import numpy as np

from capmeter.core.errors import InputError
from capmeter.stats.kendall import Numbers, paired, resamples_of
from capmeter.stats.ratios import ratio


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
