"""Tunes the weights λ of the score on human judgments and held-out perturbed captions.

Of all weights (`capmeter.metrics.own.network.score_logit`) of a grid, those are considered with which the
score's Kendall's τ with the judgments is within .0005 of the best; of these, the weights with the highest pairwise
accuracy on perturbed captions are selected. The network is not changed, and no other judgments are used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.progress import task
from capmeter.evaluation.base import RunContext
from capmeter.judgments.prepared import Points
from capmeter.metrics.own.capmeter import Capmeter
from capmeter.metrics.own.network import SCORE_TERMS, score_logit
from capmeter.metrics.own.trained_networks import EncodedPart
from capmeter_research.common.model_selection import kendall_tau
from capmeter_research.networks.own_metric.batch import CaptionBatch
from capmeter_research.networks.own_metric.training import PAIRWISE_ACCURACY, pairwise_accuracy

Floats = NDArray[np.float64]
ScoreTerms = Mapping[str, Floats]
"""The arguments of `score_logit` (captions), by name."""
ScoreWeights = tuple[float, float, float, float, float, float]
"""λ."""

_COSINE = (12.0, 16.0, 20.0, 24.0)
_OBJECTS = (2.0, 3.0, 4.0, 6.0, 8.0)
_TRUE = (1.0, 1.5, 2.0, 2.5)  # times the weight of objects, whose term is about 2 if the references name them all
_COVERAGE = (1.0, 2.0, 4.0)
_FLUENCY = (1.0, 2.0, 3.0)
_GRAMMAR = 1.2
_TAU_TOLERANCE = 0.0005

Trial = TypeVar("Trial")


class TunedWeights(NamedTuple):
    """The weights, and Kendall's τ with them."""

    weights: ScoreWeights
    tau: float


def weight_grid() -> list[ScoreWeights]:
    """All weights that are tried."""
    return [
        (cosine, objects, true * objects, coverage, fluency, _GRAMMAR)
        for cosine, objects, true, coverage, fluency in product(_COSINE, _OBJECTS, _TRUE, _COVERAGE, _FLUENCY)
    ]


def component_logits(metric: Capmeter, captions: CaptionSet, context: RunContext) -> dict[str, Floats]:
    """The score and its terms before calibration, (captions,) each: the logits of score, correctness, coverage and
    fluency, and the terms cosine and objects (`capmeter.metrics.own.network`).

    Args:
        metric: whose networks score.
        captions: with references.
        context: where they run.
    """
    trained = metric.load(context.settings)
    logits = {term_name: np.zeros(len(captions)) for term_name in ("score", *SCORE_TERMS)}
    for rows, output in EncodedPart.encode(captions, trained, context.settings).run_matcher(trained, context.settings):
        for term_name, term_logits in logits.items():
            term_logits[rows] = getattr(output, term_name).cpu().numpy()
    return logits


def tune_weights(
    judged_terms: ScoreTerms, judgments: Points, held_out_terms: ScoreTerms, held_out: CaptionBatch
) -> TunedWeights:
    """Selects the weights of the score.

    Args:
        judged_terms: of the judgments' captions.
        judgments: for Kendall's τ.
        held_out_terms: of the held-out captions and their perturbations.
        held_out: these captions.
    """
    trials: list[tuple[float, float, ScoreWeights]] = []
    with task("tuning the score's weights", total=len(weight_grid())) as advance:
        for weights in weight_grid():
            scores = _score(judged_terms, weights)[judgments.rows]
            tau = kendall_tau(judgments.protocol.statistic, scores, judgments.human)
            accuracy = pairwise_accuracy(held_out, _score(held_out_terms, weights))[PAIRWISE_ACCURACY]
            trials.append((tau, accuracy, weights))
            advance(1)
    tau, _, weights = select_trial(trials)
    return TunedWeights(weights, tau)


def select_trial(trials: Sequence[tuple[float, float, Trial]]) -> tuple[float, float, Trial]:
    """Of trials (τ, pairwise accuracy, what was tried) those within .0005 of the best τ; of these the most accurate.

    >>> select_trial([(0.3760, 0.94, "a"), (0.3757, 0.96, "b"), (0.3700, 0.99, "c")])
    (0.3757, 0.96, 'b')
    """
    best_tau = max(tau for tau, _, _ in trials)
    eligible_trials = (trial for trial in trials if trial[0] >= best_tau - _TAU_TOLERANCE)
    return max(eligible_trials, key=lambda trial: (trial[1], trial[0]))


def _score(terms: ScoreTerms, weights: Sequence[float]) -> Floats:
    """The logits of the score (captions) with these weights."""
    logits: Floats = score_logit(*(torch.from_numpy(terms[name]) for name in SCORE_TERMS), weights=weights).numpy()
    return logits
