"""Multiple testing: p values corrected for the number of tests.

>>> holm_correction([0.01, 0.04, 0.03]).tolist()
[0.03, 0.06, 0.06]
"""

from __future__ import annotations

import numpy as np

from capmeter.core.errors import InputError
from capmeter.stats.kendall import Array, Numbers


def holm_correction(p: Numbers) -> Array:
    """Holm's step-down correction: rejecting where the result is below α keeps the family-wise error rate at α."""
    p_values = np.asarray(p, float)
    if p_values.ndim != 1 or not ((p_values >= 0) & (p_values <= 1)).all():
        raise InputError(f"expected p values between 0 and 1, but got {p_values.tolist()}")
    order = np.argsort(p_values, kind="stable")
    stepped_p = np.maximum.accumulate(p_values[order] * np.arange(len(p_values), 0, -1))
    adjusted_p = np.empty(len(p_values))
    adjusted_p[order] = np.minimum(stepped_p, 1.0)
    return adjusted_p
