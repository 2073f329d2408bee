"""A run of the training of the metric `capmeter`, from captions to a calibrated checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from capmeter.checkpoints import Checkpoint, TrainingData
from capmeter.encoders import find_encoder
from capmeter.encoders.adaptation import LAYERS
from capmeter.judgments.judged import Points
from capmeter.learning.capmeter.examples import Examples
from capmeter.learning.capmeter.judging import DOUBTED, JudgeLearner, right_and_wrong, words_found
from capmeter.learning.capmeter.recipe import CapmeterRecipe, JudgeRecipe
from capmeter.learning.capmeter.training import BADLY_SAID, LESS, CapmeterLearner, held_out_rows
from capmeter.learning.capmeter.tuning import tuned
from capmeter.learning.capmeter.words import WordLearner
from capmeter.learning.capmeter.wrong import STILL_TRUE
from capmeter.learning.loop import Outcome, Run, Weights
from capmeter.learning.selecting import check_selecting, name_of
from capmeter.metrics.base import Context
from capmeter.metrics.capmeter.capmeter import JUDGE, KIND, PARTS, RIGHT, Capmeter
from capmeter.metrics.capmeter.network import JudgeShape
from capmeter.settings import Settings

Floats = NDArray[np.float64]
_TURNS = 50


def train_capmeter(
    examples: Examples,
    recipe: CapmeterRecipe,
    judging: JudgeRecipe,
    folder: Path,
    *,
    data: Sequence[TrainingData],
    judgments: Points | None = None,
    device: str = "cpu",
) -> Checkpoint:
    """Trains both networks, calibrates on the photos held out, and writes the checkpoint into the folder.

    The judgments choose how the parts weigh in the score (`tuning.py`); without them the recipe does. An interrupted
    run is resumed from `run` there.

    Raises:
        InputError: the judgments are compared by something other than Kendall's τ.
    """
    if judgments is not None:
        check_selecting(judgments)
    judged = train_judge(examples, judging, folder, device=device)
    learner = CapmeterLearner(examples, recipe, device)
    outcome = Run(learner, recipe, folder / "run", description="training capmeter", device=device).train()
    weights = _shipped(learner, outcome)
    calibrated = calibration(learner)
    calibrated[RIGHT], found = calibration_of_words(examples, judged.logits)
    scores = {**learner.measured(), **found}
    made = Checkpoint(
        kind=KIND,
        parameters={
            "shape": asdict(learner.network.shape),
            "judge": asdict(judged.shape),
            "encoder": examples.encoder,
            "encoder_sha256": find_encoder(examples.encoder).sha256,
            "layer": examples.layer,
            "judge_layer": judged.layer,
            "calibration": {name: list(pair) for name, pair in calibrated.items()},
        },
        weights={**weights, **judged.weights, **examples.known.to_weights()},
        data=tuple(data),
        training={**asdict(recipe), "judge": asdict(judging)},
        selection=f"the last of {len(outcome.history)} epochs",
        scores={name: round(value, 4) for name, value in scores.items()},
    )
    made.save(folder)
    if judgments is not None:
        made = weighed(made, learner, judgments, folder)
        made.save(folder)
    return made


def weighed(made: Checkpoint, learner: CapmeterLearner, judgments: Points, folder: Path) -> Checkpoint:
    """The checkpoint in this folder with the weights of parts that the judgments choose, calibrated for them; the
    learner's network has them from now on.
    """
    told = Capmeter(checkpoint=str(folder)).told(judgments.captions, Context(Settings(device=learner.on)))
    rows = held_out_rows(learner.examples)
    found = tuned(told, judgments, learner.logits(rows), rows)
    network = learner.network
    network.shape = replace(network.shape, parts=found.parts)
    calibrated = {**made.parameters["calibration"], **{name: list(pair) for name, pair in calibration(learner).items()}}
    agreement = {f"{judgments.benchmark}, {judgments.protocol.statistic}": found.tau}
    scores = {name: round(value, 4) for name, value in {**learner.measured(), **agreement}.items()}
    return replace(
        made,
        parameters={**made.parameters, "shape": asdict(network.shape), "calibration": calibrated},
        training={**made.training, "counted": found.parts},
        selection=f"{made.selection}; weights of parts: {name_of(judgments)}, and wrong forms",
        scores={**made.scores, **scores},
    )


@dataclass(frozen=True, eq=False)
class Judged:
    """The network that judges words: its shape, the layer that it reads, its weights and those of its layers'
    adaptation as a checkpoint holds them, and its logits on held-out rows.
    """

    shape: JudgeShape
    layer: int
    weights: Weights
    logits: Sequence[Floats]


def train_judge(examples: Examples, recipe: JudgeRecipe, folder: Path, *, device: str = "cpu") -> Judged:
    """Trains the network that judges words, on states half way up to the layer that the other one reads.

    An interrupted run is resumed from `run/judge` in the folder.
    """
    layer = (examples.layer + 1) // 2
    learner = JudgeLearner(examples, recipe, layer, device)
    run = Run(learner, recipe, folder / "run" / "judge", description="training the judge of words", device=device)
    shipped = _shipped(learner, run.train())
    # "judge." and "layers." in training; everything is the judge's in a checkpoint
    weights = {JUDGE + name.removeprefix(JUDGE).removeprefix(LAYERS): each for name, each in shipped.items()}
    return Judged(learner.network.shape, layer, weights, learner.logits())


def _shipped(learner: WordLearner, outcome: Outcome) -> Weights:
    """The weights in half the bytes; the network has them from now on."""
    weights = {name: array.astype(np.float16) for name, array in outcome.weights.items()}
    learner.module.load_state_dict({name: torch.from_numpy(each.astype(np.float32)) for name, each in weights.items()})
    learner.module.eval()
    return weights


def calibration(learner: CapmeterLearner) -> dict[str, tuple[float, float]]:
    """Slope and offset of each logit, from captions of held-out photos and their wrong forms.

    σ(slope · logit + offset) is the probability that a caption is right where as many are right as wrong; of a part,
    among errors that concern it.
    """
    rows = held_out_rows(learner.examples)
    logits = learner.logits(rows)
    kinds = [None if form is None else form.kind for _, _, form, _ in rows]
    own = np.array([kind is None for kind in kinds], np.bool_)
    concerns = {
        "score": [kind is not None for kind in kinds],
        "correctness": [kind is not None and kind not in STILL_TRUE for kind in kinds],
        "coverage": [form is not None and form.kind in LESS and form.lost > 0 for _, _, form, _ in rows],
        "fluency": [kind in BADLY_SAID for kind in kinds],
    }
    return {part: logistic(logits[part][own], logits[part][np.array(concerns[part])]) for part in PARTS}


def calibration_of_words(examples: Examples, judged: Sequence[Floats]) -> tuple[tuple[float, float], dict[str, float]]:
    """Slope and offset of the judge's logits, so that `DOUBTED` of the right pieces have a probability below .5; and
    which wrong words are found so.
    """
    right, wrong = right_and_wrong(examples, judged)
    slope, _ = logistic(right, np.concatenate([np.zeros(0), *wrong.values()]))
    return (slope, -slope * float(np.quantile(right, DOUBTED))), words_found(right, wrong)


def logistic(right: Floats, wrong: Floats) -> tuple[float, float]:
    """Slope and offset of the logistic curve through one number each of right and wrong ones; both sides weigh alike.

    By Newton's method, with a little shrinkage so that sides that do not overlap have a slope too.

    >>> slope, offset = logistic(np.array([1.0, 2.0, 3.0]), np.array([-1.0, 0.0, 1.5]))
    >>> slope > 0, abs(slope * 1.0 + offset) < 1.0
    (True, True)
    """
    if not len(right) or not len(wrong):
        return 1.0, 0.0
    values = np.concatenate([right, wrong])
    labels = np.repeat([1.0, 0.0], [len(right), len(wrong)])
    weights = np.repeat([0.5 / len(right), 0.5 / len(wrong)], [len(right), len(wrong)])
    middle, spread = float(values.mean()), max(float(values.std()), 1e-9)
    inputs = np.stack([(values - middle) / spread, np.ones(len(values))], axis=1)
    fitted = np.zeros(2)
    shrinkage = np.diag([1e-3, 0.0])
    for _ in range(_TURNS):
        expected = 0.5 * (1 + np.tanh(0.5 * (inputs @ fitted)))
        slopes = inputs.T @ (weights * (expected - labels)) + shrinkage @ fitted
        bend = (inputs * (weights * expected * (1 - expected))[:, None]).T @ inputs + shrinkage + 1e-9 * np.eye(2)
        fitted = fitted - np.clip(np.linalg.solve(bend, slopes), -2, 2)
    slope = float(fitted[0]) / spread
    return slope, float(fitted[1]) - slope * middle
