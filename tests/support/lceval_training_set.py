"""A small random training set for LCEval."""

from __future__ import annotations

import numpy as np
from capmeter_research.papers.lceval.features import FEATURES, Features
from capmeter_research.papers.lceval.training.perturbed import FORMS
from capmeter_research.papers.lceval.training.training_set import SelectionJudgments, TrainingSet


def random_training_set(count: int = 600, seed: int = 0) -> TrainingSet:
    """Examples that a linear network can nearly separate, and judgments that follow the same direction."""
    rng = np.random.default_rng(seed)
    direction = rng.normal(size=len(FEATURES))
    matrix, judged_features = rng.random((count, len(FEATURES))), rng.random((200, len(FEATURES)))
    human = (matrix - 0.5) @ direction + 0.2 * rng.normal(size=count) > 0
    quality = np.digitize((judged_features - 0.5) @ direction, [-0.5, 0, 0.5]).astype(float)
    return TrainingSet(
        Features(),
        matrix,
        human,
        held_out=np.arange(count) % 10 == 0,
        perturbed=np.zeros((0, FORMS, len(FEATURES))),
        systems=np.where(human, "", np.where(np.arange(count) % 2, "one", "two")),
        judgments=SelectionJudgments("simulated", judged_features, np.arange(200), quality, "tau-b"),
    )
