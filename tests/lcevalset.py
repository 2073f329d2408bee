"""A small training set for LCEval, made of random numbers."""

from __future__ import annotations

import numpy as np

from capmeter.learning.lceval.training_set import Judged, TrainingSet
from capmeter.metrics.lceval.features import FEATURES, Features


def made_set(count: int = 600, seed: int = 0) -> TrainingSet:
    """Examples that a linear network can nearly separate, and judgments that follow the same direction."""
    rng = np.random.default_rng(seed)
    direction = rng.normal(size=len(FEATURES))
    matrix, judged = rng.random((count, len(FEATURES))), rng.random((200, len(FEATURES)))
    human = (matrix - 0.5) @ direction + 0.2 * rng.normal(size=count) > 0
    quality = np.digitize((judged - 0.5) @ direction, [-0.5, 0, 0.5]).astype(float)
    return TrainingSet(
        Features(),
        matrix,
        human,
        held_out=np.arange(count) % 10 == 0,
        systems=np.where(human, "", np.where(np.arange(count) % 2, "one", "two")),
        judged=Judged("made", judged, np.arange(200), quality, "tau-b"),
    )
