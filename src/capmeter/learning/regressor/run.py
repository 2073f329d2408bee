"""A run of training from captions with human scores to a checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from capmeter.captions.model import CaptionSet
from capmeter.checkpoints import Checkpoint, TrainingData
from capmeter.encoders.models import JOINT_ENCODERS, find_encoder
from capmeter.learning.loop import Outcome, Run
from capmeter.learning.regressor.examples import read_examples
from capmeter.learning.regressor.recipe import RegressorRecipe
from capmeter.learning.regressor.training import RegressorLearner
from capmeter.metrics.regressor.inputs import Inputs
from capmeter.metrics.regressor.regressor import KIND
from capmeter.settings import Settings


def train_regressor(
    captions: CaptionSet,
    inputs: Inputs,
    recipe: RegressorRecipe,
    folder: Path,
    *,
    data: Sequence[TrainingData] = (),
    device: str = "cpu",
    settings: Settings | None = None,
) -> Outcome:
    """Trains a head, and writes its checkpoint into the folder; an interrupted run is resumed from `run` there."""
    examples = read_examples(captions, inputs, share=recipe.held_out, seed=recipe.seed, settings=settings)
    learner = RegressorLearner(examples, recipe, device)
    outcome = Run(learner, recipe, folder / "run", description="training a regressor", device=device).train()
    sha256 = find_encoder(inputs.encoder, JOINT_ENCODERS).sha256
    Checkpoint(
        kind=KIND,
        parameters={**inputs.to_parameters(), "encoder_sha256": sha256, "low": examples.low, "high": examples.high},
        weights=learner.head(outcome).to_weights(),
        data=tuple(data),
        training=asdict(recipe),
        selection=f"highest tau-c less error on {len(examples.held_out)} held-out captions, epoch {outcome.epoch}",
        scores=dict(outcome.scores),
    ).save(folder)
    return outcome
