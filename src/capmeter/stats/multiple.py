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
    values = np.asarray(p, float)
    if values.ndim != 1 or not ((values >= 0) & (values <= 1)).all():
        raise InputError(f"expected p values between 0 and 1, but got {values.tolist()}")
    order = np.argsort(values, kind="stable")
    stepped = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    adjusted = np.empty(len(values))
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted
