"""How much the parts weigh in the score: what human judgments and held-out wrong forms choose.

Of all weights λ (`capmeter.metrics.capmeter.network.scored`) of a grid, those with which the score agrees with the
judgments as well as with the best ones, up to .0005 of Kendall's τ; of these, the ones that tell most wrong forms from
their captions. The network does not change, and no other judgments are looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from capmeter.judgments.judged import Points
from capmeter.learning.capmeter.training import TOLD_APART, HeldOut, told_apart
from capmeter.learning.selecting import tau
from capmeter.metrics.capmeter.network import SCORED, scored
from capmeter.progress import task

Floats = NDArray[np.float64]
Logits = Mapping[str, Floats]
"""By name what `scored` is given of each caption."""
Parts = tuple[float, float, float, float, float, float]
"""λ: how much each part weighs."""

_COSINE = (12.0, 16.0, 20.0, 24.0)
_THINGS = (2.0, 3.0, 4.0, 6.0, 8.0)
_RIGHT = (1.0, 1.5, 2.0, 2.5)  # times the weight of things, which are about 2 where references name them all
_COVERAGE = (1.0, 2.0, 4.0)
_FLUENCY = (1.0, 2.0, 3.0)
_SENTENCE = 1.2
_AS_GOOD = 0.0005


class Tuned(NamedTuple):
    """The weights, and τ with them."""

    parts: Parts
    tau: float


def grid() -> list[Parts]:
    """All weights that are tried."""
    return [
        (alike, named, right * named, complete, well_said, _SENTENCE)
        for alike, named, right, complete, well_said in product(_COSINE, _THINGS, _RIGHT, _COVERAGE, _FLUENCY)
    ]


def tuned(judged: Logits, judgments: Points, held_out: Logits, rows: Sequence[HeldOut]) -> Tuned:
    """The weights that the judgments and the wrong forms choose.

    Args:
        judged: of the judgments' captions.
        judgments: what selects.
        held_out: of the held-out captions and their wrong forms.
        rows: these.
    """
    tried: list[tuple[float, float, Parts]] = []
    with task("weighing the parts", total=len(grid())) as advance:
        for parts in grid():
            scores = _score(judged, parts)[judgments.rows]
            agreement = tau(judgments.protocol.statistic, scores, judgments.human)
            tried.append((agreement, told_apart(rows, _score(held_out, parts))[TOLD_APART], parts))
            advance(1)
    best = max(agreement for agreement, _, _ in tried)
    agreement, _, parts = max(
        (each for each in tried if each[0] >= best - _AS_GOOD), key=lambda each: (each[1], each[0])
    )
    return Tuned(parts, agreement)


def _score(told: Logits, parts: Sequence[float]) -> Floats:
    """The logits of the score with these weights."""
    logits: Floats = scored(*(torch.from_numpy(told[name]) for name in SCORED), parts=parts).numpy()
    return logits
