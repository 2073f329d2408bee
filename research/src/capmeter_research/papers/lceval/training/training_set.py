"""The training set of LCEval: the features of labelled examples, and of the judgments that select an epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from capmeter.core.checkpoints import TrainingData
from capmeter.core.errors import InputError
from capmeter.core.settings import Settings
from capmeter.evaluation.base import Floats
from capmeter.judgments.prepared import Points
from capmeter_research.common.model_selection import describe_judgments, require_kendall
from capmeter_research.papers.lceval.features import Features
from capmeter_research.papers.lceval.training.examples import LabelledCandidate, build_caption_set
from capmeter_research.papers.lceval.training.perturbed import FORMS
from capmeter_research.papers.lceval.training.stored_features import feature_matrix


@dataclass(frozen=True, eq=False)
class SelectionJudgments:
    """Judgments for model selection."""

    name: str  # of benchmark and protocol
    features: Floats  # (captions, features)
    rows: npt.NDArray[np.int64]  # (judgments), the caption of each
    human: Floats  # (judgments), its value
    statistic: str  # of the protocol, such as `tau-c`


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Labelled examples with their features."""

    features: Features  # which, and how they were computed
    matrix: Floats  # (examples, features)
    human: npt.NDArray[np.bool_]  # bool (examples)
    held_out: npt.NDArray[np.bool_]  # bool (examples)
    systems: npt.NDArray[np.str_]  # (examples), empty for human captions
    perturbed: Floats  # (captions, forms, features): human captions, each with its perturbed forms; often none
    judgments: SelectionJudgments | None = None  # for model selection; none: accuracy selects
    data: tuple[TrainingData, ...] = ()  # the files of the examples

    def with_features(self, names: Sequence[str]) -> TrainingSet:
        """The same examples with these features only."""
        feature_columns = [self.features.names.index(feature_name) for feature_name in names]
        judgments = self.judgments
        if judgments is not None:
            judgments = replace(judgments, features=judgments.features[:, feature_columns])
        features = replace(self.features, names=tuple(names))
        return replace(
            self,
            features=features,
            matrix=self.matrix[:, feature_columns],
            perturbed=self.perturbed[:, :, feature_columns],
            judgments=judgments,
        )

    def against_system(self, system: str) -> TrainingSet:
        """All human captions, and the machine captions of one system only (section 7.5.6)."""
        used_rows = self.human | (self.systems == system)
        if not (used_rows & ~self.human).any():
            system_names = ", ".join(sorted(set(self.systems[~self.human].tolist())))
            raise InputError(f"unknown system {system!r} of machine captions; expected one of {system_names}")
        return replace(
            self,
            matrix=self.matrix[used_rows],
            human=self.human[used_rows],
            held_out=self.held_out[used_rows],
            systems=self.systems[used_rows],
        )

    @property
    def mean_features(self) -> Floats:
        """The features (features) of the mean training caption; human and machine captions have equal weight."""
        is_trained = ~self.held_out
        class_means = [self.matrix[is_trained & has_label].mean(axis=0) for has_label in (self.human, ~self.human)]
        mean: Floats = np.mean(class_means, axis=0)
        return mean


def build_training_set(
    examples: Sequence[LabelledCandidate],
    judgments: Points | None,
    features: Features,
    folder: Path | None = None,
    *,
    perturbed: Sequence[LabelledCandidate] = (),
    data: Sequence[TrainingData] = (),
    settings: Settings | None = None,
) -> TrainingSet:
    """Computes the features of examples and judgments.

    Args:
        examples: without benchmark photos (`build_examples`).
        judgments: for model selection.
        features: which, and how they are computed.
        folder: of stored features.
        perturbed: captions with their perturbed forms (`perturb_captions`).
        data: the files of the examples.
        settings: for the metrics.

    Raises:
        InputError: the judgments are correlated by another statistic than Kendall's τ.
    """
    selection = None
    if judgments is not None:
        require_kendall(judgments)
        matrix = feature_matrix(judgments.captions, features, folder, settings=settings)
        selection = SelectionJudgments(
            describe_judgments(judgments), matrix, judgments.rows, judgments.human, judgments.protocol.statistic
        )
    form_matrix = np.zeros((0, len(features.names)))
    if perturbed:
        form_matrix = feature_matrix(build_caption_set(perturbed), features, folder, settings=settings)
    return TrainingSet(
        features,
        feature_matrix(build_caption_set(examples), features, folder, settings=settings),
        human=np.array([example.human for example in examples]),
        held_out=np.array([example.held_out for example in examples]),
        systems=np.array([example.system for example in examples]),
        perturbed=form_matrix.reshape(-1, FORMS, len(features.names)),
        judgments=selection,
        data=tuple(data),
    )
