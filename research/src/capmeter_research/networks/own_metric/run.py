"""Trains the metric `capmeter`: from captions to a calibrated checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from capmeter.core.checkpoints import Checkpoint, TrainingData
from capmeter.core.settings import Settings
from capmeter.encoders.text.layers import LAYERS
from capmeter.evaluation.base import RunContext
from capmeter.judgments.prepared import Points
from capmeter.metrics.own.capmeter import KIND, TAGGER_PREFIX, Capmeter
from capmeter.metrics.own.network import TaggerShape
from capmeter.metrics.own.trained_networks import COLUMNS, WORD_CALIBRATION
from capmeter_research.common.loop import Outcome, Run, Weights
from capmeter_research.common.model_selection import describe_judgments, require_kendall
from capmeter_research.networks.own_metric.examples import PhotoExamples
from capmeter_research.networks.own_metric.perturbations import DISFLUENT_KINDS, OMISSION_KINDS, TRUE_KINDS
from capmeter_research.networks.own_metric.priors import priors_arrays
from capmeter_research.networks.own_metric.recipe import CapmeterRecipe, TaggerRecipe
from capmeter_research.networks.own_metric.tagging import (
    FALSE_ALARM_RATE,
    TaggerLearner,
    detection_rates,
    split_by_label,
)
from capmeter_research.networks.own_metric.training import CapmeterLearner, held_out_batch
from capmeter_research.networks.own_metric.tuning import component_logits, tune_weights
from capmeter_research.networks.own_metric.word_loss import WordLearner

Floats = NDArray[np.float64]
_NEWTON_STEPS = 50


def train_capmeter(
    examples: PhotoExamples,
    recipe: CapmeterRecipe,
    tagger_recipe: TaggerRecipe,
    folder: Path,
    *,
    data: Sequence[TrainingData],
    judgments: Points | None = None,
    device: str = "cpu",
    workers: int = 1,
) -> Checkpoint:
    """Trains both networks, calibrates them on the held-out photos, and writes the checkpoint.

    Args:
        examples: photos with perturbed captions.
        recipe: settings of the matcher.
        tagger_recipe: settings of the tagger.
        folder: the output folder; an interrupted run is resumed from `run` there.
        data: the sources of the captions.
        judgments: for tuning the weights of the score (`tuning.py`); none: the recipe's weights.
        device: a torch device.
        workers: processes that prepare batches.

    Raises:
        InputError: the judgments are correlated by another statistic than Kendall's τ.
    """
    if judgments is not None:
        require_kendall(judgments)
    tagger = _train_tagger(examples, tagger_recipe, folder, device=device, workers=workers)
    learner = CapmeterLearner(examples, recipe, device)
    matcher_run = Run(learner, recipe, folder / "run", description="training capmeter", device=device, workers=workers)
    outcome = matcher_run.train()
    weights = _round_weights(learner, outcome)
    calibration = calibrate(learner)
    calibration[WORD_CALIBRATION], word_scores = calibrate_words(examples, tagger.logits)
    scores = {**learner.evaluate(), **word_scores}
    checkpoint = Checkpoint(
        kind=KIND,
        parameters={
            "shape": learner.network.shape.to_parameters(),
            "judge": tagger.shape.to_parameters(),
            "encoder": examples.encoder.name,
            "encoder_sha256": examples.encoder.sha256,
            "layer": examples.layer,
            "judge_layer": tagger.layer,
            "calibration": {name: list(pair) for name, pair in calibration.items()},
        },
        weights={**weights, **tagger.weights, **priors_arrays(examples.priors)},
        data=tuple(data),
        training={**asdict(recipe), "tagger": asdict(tagger_recipe)},
        selection=f"the last of {len(outcome.history)} epochs",
        scores={score_name: round(score, 4) for score_name, score in scores.items()},
    )
    checkpoint.save(folder)
    if judgments is not None:
        checkpoint = _tune_checkpoint(checkpoint, learner, judgments, folder)
        checkpoint.save(folder)
    return checkpoint


def _tune_checkpoint(checkpoint: Checkpoint, learner: CapmeterLearner, judgments: Points, folder: Path) -> Checkpoint:
    """The checkpoint in this folder, and the learner's network, with tuned weights of the score and calibrated anew."""
    context = RunContext(settings=Settings(device=learner.device_name))
    judged_terms = component_logits(Capmeter(checkpoint=str(folder)), judgments.captions, context)
    held_out, network = held_out_batch(learner.examples), learner.network
    tuned = tune_weights(judged_terms, judgments, learner.logits(held_out), held_out)
    network.shape = replace(network.shape, component_weights=tuned.weights)
    calibration = {name: list(pair) for name, pair in calibrate(learner).items()}
    scores = {**learner.evaluate(), f"{judgments.benchmark}, {judgments.protocol.statistic}": tuned.tau}
    parameters = checkpoint.parameters
    return replace(
        checkpoint,
        parameters={
            **parameters,
            "shape": network.shape.to_parameters(),
            "calibration": {**parameters["calibration"], **calibration},
        },
        training={**checkpoint.training, "score_weights": tuned.weights},
        selection=f"{checkpoint.selection}; score weights: {describe_judgments(judgments)}, and perturbed captions",
        scores={**checkpoint.scores, **{score_name: round(score, 4) for score_name, score in scores.items()}},
    )


@dataclass(frozen=True, eq=False)
class TrainedTagger:
    """A trained word error tagger."""

    shape: TaggerShape  # of the network
    layer: int  # of its encoder
    weights: Weights  # of network and adapters, by their names in a checkpoint
    logits: Sequence[Floats]  # (pieces) of each caption of `tagger_batch`


def _train_tagger(
    examples: PhotoExamples, recipe: TaggerRecipe, folder: Path, *, device: str = "cpu", workers: int = 1
) -> TrainedTagger:
    """Trains the word error tagger, on the encoder layer at half the matcher's depth.

    An interrupted run is resumed from `run/tagger` in the folder.
    """
    layer = (examples.layer + 1) // 2
    learner = TaggerLearner(examples, recipe, layer, device)
    description = "training the word error tagger"
    run = Run(learner, recipe, folder / "run" / "tagger", description=description, device=device, workers=workers)
    outcome = run.train()
    # "judge." and "layers." in training; all have the tagger's prefix in a checkpoint
    weights = {
        TAGGER_PREFIX + name.removeprefix(TAGGER_PREFIX).removeprefix(LAYERS): array
        for name, array in _round_weights(learner, outcome).items()
    }
    return TrainedTagger(learner.network.shape, layer, weights, learner.logits())


def _round_weights(learner: WordLearner, outcome: Outcome) -> Weights:
    """The weights in half precision, which the learner's network has from now on."""
    weights = {name: array.astype(np.float16) for name, array in outcome.weights.items()}
    learner.module.load_state_dict(
        {name: torch.from_numpy(rounded_array.astype(np.float32)) for name, rounded_array in weights.items()}
    )
    learner.module.eval()
    return weights


def calibrate(learner: CapmeterLearner) -> dict[str, tuple[float, float]]:
    """Slope and offset of each logit, fitted to held-out captions and their perturbations.

    σ(slope · logit + offset) is the probability that a caption is right if as many are right as wrong; for a component,
    among the perturbations that concern it.
    """
    batch = held_out_batch(learner.examples)
    logits = learner.logits(batch)
    perturbed = [row.perturbation for row in batch.rows]
    is_original = np.array([each is None for each in perturbed], np.bool_)
    concerned_rows = {
        "score": ~is_original,
        "correctness": np.array([each is not None and each.kind not in TRUE_KINDS for each in perturbed]),
        "coverage": np.array(
            [each is not None and each.kind in OMISSION_KINDS and each.omitted > 0 for each in perturbed]
        ),
        "fluency": np.array([each is not None and each.kind in DISFLUENT_KINDS for each in perturbed]),
    }
    return {name: fit_logistic(logits[name][is_original], logits[name][concerned_rows[name]]) for name in COLUMNS}


def calibrate_words(examples: PhotoExamples, logits: Sequence[Floats]) -> tuple[tuple[float, float], dict[str, float]]:
    """Slope and offset of the tagger's logits, so that `FALSE_ALARM_RATE` of the right pieces have a probability below
    .5, and the detection rates.
    """
    right, wrong = split_by_label(examples, logits)
    slope, _ = fit_logistic(right, np.concatenate([np.zeros(0), *wrong.values()]))
    return (slope, -slope * float(np.quantile(right, FALSE_ALARM_RATE))), detection_rates(right, wrong)


def fit_logistic(positive: Floats, negative: Floats) -> tuple[float, float]:
    """Slope and offset of the logistic function that separates positive from negative values, of equal total weight.

    By Newton's method, with slight regularisation so that the slope is finite if the values do not overlap.

    >>> slope, offset = fit_logistic(np.array([1.0, 2.0, 3.0]), np.array([-1.0, 0.0, 1.5]))
    >>> slope > 0, abs(slope * 1.0 + offset) < 1.0
    (True, True)
    """
    if not len(positive) or not len(negative):
        return 1.0, 0.0
    pooled_values = np.concatenate([positive, negative])
    labels = np.repeat([1.0, 0.0], [len(positive), len(negative)])
    weights = np.repeat([0.5 / len(positive), 0.5 / len(negative)], [len(positive), len(negative)])
    mean, std = float(pooled_values.mean()), max(float(pooled_values.std()), 1e-9)
    inputs = np.stack([(pooled_values - mean) / std, np.ones(len(pooled_values))], axis=1)
    parameters = np.zeros(2)
    penalty = np.diag([1e-3, 0.0])
    for _ in range(_NEWTON_STEPS):
        expected = 0.5 * (1 + np.tanh(0.5 * (inputs @ parameters)))
        gradient = inputs.T @ (weights * (expected - labels)) + penalty @ parameters
        curvature = (inputs * (weights * expected * (1 - expected))[:, None]).T @ inputs + penalty + 1e-9 * np.eye(2)
        parameters = parameters - np.clip(np.linalg.solve(curvature, gradient), -2, 2)
    slope = float(parameters[0]) / std
    return slope, float(parameters[1]) - slope * mean
