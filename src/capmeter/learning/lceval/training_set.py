"""What LCEval is trained on: the features of examples and of the judgments that select an epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from capmeter.checkpoints import TrainingData
from capmeter.errors import InputError
from capmeter.judgments.judged import Points
from capmeter.learning.lceval.examples import Example, caption_set
from capmeter.learning.lceval.stored_features import feature_matrix
from capmeter.learning.selecting import check_selecting, name_of
from capmeter.metrics.base import Floats
from capmeter.metrics.lceval.features import Features
from capmeter.settings import Settings


@dataclass(frozen=True, eq=False)
class Judged:
    """Judgments that select: the features of captions [n, k], and each judgment's caption (row) and value."""

    name: str
    features: Floats
    rows: npt.NDArray[np.int64]
    human: Floats
    statistic: str


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Examples with their features.

    features: which, and how they were computed. matrix: float64[examples, features]; human, held_out: bool[examples];
    systems: of each example, empty for a person's. judged: what selects; none: accuracy does. data: the files.
    """

    features: Features
    matrix: Floats
    human: npt.NDArray[np.bool_]
    held_out: npt.NDArray[np.bool_]
    systems: npt.NDArray[np.str_]
    judged: Judged | None = None
    data: tuple[TrainingData, ...] = ()

    def of(self, names: Sequence[str]) -> TrainingSet:
        """The same with these features alone."""
        columns = [self.features.names.index(name) for name in names]
        judged = None if self.judged is None else replace(self.judged, features=self.judged.features[:, columns])
        return replace(
            self, features=replace(self.features, names=tuple(names)), matrix=self.matrix[:, columns], judged=judged
        )

    def against(self, system: str) -> TrainingSet:
        """The same with all examples of people, and of machines those of one system alone (section 7.5.6)."""
        kept = self.human | (self.systems == system)
        if not (kept & ~self.human).any():
            known = ", ".join(sorted(set(self.systems[~self.human].tolist())))
            raise InputError(f"no example is of the system {system!r}; there are {known}")
        return replace(
            self,
            matrix=self.matrix[kept],
            human=self.human[kept],
            held_out=self.held_out[kept],
            systems=self.systems[kept],
        )

    @property
    def base(self) -> Floats:
        """The mean training caption, people and machines weighing the same."""
        learned = ~self.held_out
        means = [self.matrix[learned & side].mean(axis=0) for side in (self.human, ~self.human)]
        base: Floats = np.mean(means, axis=0)
        return base


def training_set(
    examples: Sequence[Example],
    judgments: Points | None,
    features: Features,
    folder: Path | None = None,
    *,
    data: Sequence[TrainingData] = (),
    settings: Settings | None = None,
) -> TrainingSet:
    """The training set of these examples.

    Args:
        examples: without photos of benchmarks (`make_examples`).
        judgments: what selects the epoch.
        features: which and how.
        folder: where features are kept.
        data: the files of the examples.
        settings: of the run of metrics.

    Raises:
        InputError: the judgments are compared by something other than Kendall's τ.
    """
    judged = None
    if judgments is not None:
        check_selecting(judgments)
        matrix = feature_matrix(judgments.captions, features, folder, settings=settings)
        judged = Judged(name_of(judgments), matrix, judgments.rows, judgments.human, judgments.protocol.statistic)
    return TrainingSet(
        features,
        feature_matrix(caption_set(examples), features, folder, settings=settings),
        human=np.array([each.human for each in examples]),
        held_out=np.array([each.held_out for each in examples]),
        systems=np.array([each.system for each in examples]),
        judged=judged,
        data=tuple(data),
    )
