"""What is counted of captions: words, and how many differ."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def described(captions: Sequence[str]) -> dict[str, float]:
    """Mean number of words, and the share of distinct captions (*unique captions* of Table A.2).

    >>> described(["a cat", "a cat", "a big dog"])
    {'words': 2.3333333333333335, 'distinct': 0.6666666666666666}
    """
    return {
        "words": float(np.mean([len(caption.split()) for caption in captions])),
        "distinct": len(set(captions)) / len(captions),
    }
