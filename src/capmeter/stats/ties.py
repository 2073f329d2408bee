"""Which of two scores is higher, where rounding differences count as ties.

Neural metrics give a sentence slightly different scores in different batches, and sums depend on their order: scores
that agree to six digits are a tie.

>>> sign_with_tolerance([0.3, 0.1 + 0.2, 0.5], [0.4, 0.3, 0.2]).tolist()
[-1, 0, 1]
"""

from __future__ import annotations

import numpy as np

from capmeter.core.errors import InputError
from capmeter.stats.kendall import Array

_RELATIVE = 1e-6


def sign_with_tolerance(first: object, second: object) -> Array:
    """int8: 1 where the first score is higher, -1 where the second is, 0 where they tie; shapes broadcast."""
    first_scores, second_scores = np.asarray(first, float), np.asarray(second, float)
    if not (np.isfinite(first_scores).all() and np.isfinite(second_scores).all()):
        raise InputError("expected finite scores to compare, but some are not finite; leave those captions out")
    score_gap = first_scores - second_scores
    is_tied = np.abs(score_gap) <= _RELATIVE * np.maximum(np.abs(first_scores), np.abs(second_scores))
    return np.where(is_tied, 0, np.sign(score_gap)).astype(np.int8)
