"""A run of training from captions with human scores to a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.checkpoints import Checkpoint, TrainingData
from capmeter.core.errors import InputError
from capmeter.core.settings import Settings
from capmeter.encoders.handle import find_joint_encoder
from capmeter_research.common.loop import Learner, Outcome, Run
from capmeter_research.papers.infometic.inputs import InputSpec
from capmeter_research.papers.infometic.joint_states import load_state_encoder
from capmeter_research.papers.infometic.network import HeadShape
from capmeter_research.papers.infometic.regressor import KIND, TUNED_ENCODER
from capmeter_research.papers.infometic.training.examples import RegressionTargets, read_examples, read_rated
from capmeter_research.papers.infometic.training.infometic.examples import read_examples as read_states
from capmeter_research.papers.infometic.training.infometic.labels import Labels
from capmeter_research.papers.infometic.training.infometic.training import InfoMetICLearner
from capmeter_research.papers.infometic.training.recipe import InfoMetICRecipe, RegressorRecipe
from capmeter_research.papers.infometic.training.training import RegressorLearner
from capmeter_research.papers.infometic.training.tuning import TunedLearner


def train_regressor(
    captions: CaptionSet,
    inputs: InputSpec,
    recipe: RegressorRecipe,
    folder: Path,
    *,
    labels: Mapping[str, Labels] | None = None,
    data: Sequence[TrainingData] = (),
    device: str = "cpu",
    settings: Settings | None = None,
) -> Outcome:
    """Trains a head, and writes its checkpoint; an interrupted run is resumed.

    Args:
        The recipe of the shape `infometic` is an `InfoMetICRecipe`. A tuned encoder is written into the folder
            `encoder` of the checkpoint.
        captions: with human scores.
        inputs: what the head reads.
        recipe: of the training.
        folder: of the checkpoint and the run.
        labels: of the shape `infometic`, what is known of captions' words and regions, by id.
        data: describes the captions, for the checkpoint.
        device: of torch.
        settings: where encoders run.

    Raises:
        InputError: see `read_rated`; or the encoder of a head of another shape than `polos` and `pair` is to be tuned.
    """
    if recipe.tune and inputs.shape not in ("polos", "pair"):
        raise InputError(f"tuning the encoder is for the shapes polos and pair; {inputs.shape} reads it as it is")
    settings = settings or Settings()
    parameters: dict[str, Any] = {}
    learner: RegressorLearner | InfoMetICLearner
    if isinstance(recipe, InfoMetICRecipe):
        learner, rated = _infometic(captions, inputs, recipe, labels or {}, device, settings)
        parameters["network"] = asdict(learner.network.shape)
    else:
        examples = read_examples(captions, inputs, share=recipe.held_out, seed=recipe.seed, settings=settings)
        if recipe.tune:
            learner = TunedLearner(examples, recipe, device, captions=captions, inputs=inputs, settings=settings)
        else:
            learner = RegressorLearner(examples, recipe, device)
        rated = examples.rated
    outcome = _trained(learner, recipe, folder, device)
    if isinstance(learner, TunedLearner):
        learner.save_encoder(outcome, folder / TUNED_ENCODER)
        parameters["tuned"] = True
    encoder = find_joint_encoder(str(folder / TUNED_ENCODER)) if recipe.tune else inputs.handle
    Checkpoint(
        kind=KIND,
        parameters={
            **inputs.to_parameters(),
            **parameters,
            "encoder_sha256": encoder.sha256,
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
    inputs: InputSpec,
    recipe: InfoMetICRecipe,
    labels: Mapping[str, Labels],
    device: str,
    settings: Settings,
) -> tuple[InfoMetICLearner, RegressionTargets]:
    rated = read_rated(captions, inputs, share=recipe.held_out, seed=recipe.seed)
    encoder = load_state_encoder(find_joint_encoder(inputs.encoder), settings)
    examples = read_states(captions, rated, encoder, inputs.prefix, labels, settings)
    shape = HeadShape(*encoder.shape, width=recipe.width, layers=recipe.layers, heads=recipe.heads)
    return InfoMetICLearner(examples, shape, recipe, device), rated


def _trained(learner: Learner[Any], recipe: RegressorRecipe, folder: Path, device: str) -> Outcome:
    return Run(learner, recipe, folder / "run", description="training a regressor", device=device).train()
