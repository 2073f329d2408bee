"""A run of training from captions with human scores to a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from capmeter.captions.model import CaptionSet
from capmeter.checkpoints import Checkpoint, TrainingData
from capmeter.encoders.models import JOINT_ENCODERS, find_encoder
from capmeter.encoders.states import load_states
from capmeter.errors import InputError
from capmeter.learning.infometic.examples import read_examples as read_states
from capmeter.learning.infometic.labels import Labels
from capmeter.learning.infometic.training import InfoMetICLearner
from capmeter.learning.loop import Learner, Outcome, Run
from capmeter.learning.regressor.examples import Rated, read_examples, read_rated
from capmeter.learning.regressor.recipe import InfoMetICRecipe, RegressorRecipe
from capmeter.learning.regressor.training import RegressorLearner
from capmeter.learning.regressor.tuning import TunedLearner
from capmeter.metrics.regressor.infometic import shape_to_dict
from capmeter.metrics.regressor.inputs import Inputs
from capmeter.metrics.regressor.network import NetworkShape
from capmeter.metrics.regressor.regressor import KIND, TUNED
from capmeter.settings import Settings


def train_regressor(
    captions: CaptionSet,
    inputs: Inputs,
    recipe: RegressorRecipe,
    folder: Path,
    *,
    labels: Mapping[str, Labels] | None = None,
    data: Sequence[TrainingData] = (),
    device: str = "cpu",
    settings: Settings | None = None,
) -> Outcome:
    """Trains a head, and writes its checkpoint into the folder; an interrupted run is resumed from `run` there.

    labels: of the shape `infometic`, what is known of captions' words and regions, by their ids. Its recipe is an
    `InfoMetICRecipe`. A tuned encoder is written into the folder `encoder` of the checkpoint.

    Raises:
        InputError: see `read_rated`; or the encoder of a head of the shape `infometic` is to be tuned.
    """
    if recipe.tune and isinstance(recipe, InfoMetICRecipe):
        raise InputError("tuning the encoder is for the shapes polos and pair; infometic reads its states as they are")
    settings = settings or Settings()
    parameters: dict[str, Any] = {}
    learner: RegressorLearner | InfoMetICLearner
    if isinstance(recipe, InfoMetICRecipe):
        learner, rated = _infometic(captions, inputs, recipe, labels or {}, device, settings)
        parameters["network"] = shape_to_dict(learner.network)
    else:
        examples = read_examples(captions, inputs, share=recipe.held_out, seed=recipe.seed, settings=settings)
        if recipe.tune:
            learner = TunedLearner(examples, recipe, device, captions=captions, inputs=inputs, settings=settings)
        else:
            learner = RegressorLearner(examples, recipe, device)
        rated = examples.rated
    outcome = _trained(learner, recipe, folder, device)
    if isinstance(learner, TunedLearner):
        learner.save_encoder(outcome, folder / TUNED)
        parameters["tuned"] = True
    sha256 = find_encoder(str(folder / TUNED) if recipe.tune else inputs.encoder, JOINT_ENCODERS).sha256
    Checkpoint(
        kind=KIND,
        parameters={
            **inputs.to_parameters(),
            **parameters,
            "encoder_sha256": sha256,
            "low": rated.low,
            "high": rated.high,
        },
        weights=learner.weights(outcome),
        data=tuple(data),
        training=asdict(recipe),
        selection=f"highest {learner.select} on {len(rated.held_out)} held-out captions, epoch {outcome.epoch}",
        scores=dict(outcome.scores),
    ).save(folder)
    return outcome


def _infometic(
    captions: CaptionSet,
    inputs: Inputs,
    recipe: InfoMetICRecipe,
    labels: Mapping[str, Labels],
    device: str,
    settings: Settings,
) -> tuple[InfoMetICLearner, Rated]:
    rated = read_rated(captions, inputs, share=recipe.held_out, seed=recipe.seed)
    encoder = load_states(inputs.encoder, settings)
    examples = read_states(captions, rated, encoder, inputs.prefix, labels, settings)
    shape = NetworkShape(*encoder.shape, width=recipe.width, layers=recipe.layers, heads=recipe.heads)
    return InfoMetICLearner(examples, shape, recipe, device), rated


def _trained(learner: Learner[Any], recipe: RegressorRecipe, folder: Path, device: str) -> Outcome:
    return Run(learner, recipe, folder / "run", description="training a regressor", device=device).train()
