"""A run of the training of the metric `capmeter`, from captions to a calibrated checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from capmeter.checkpoints import Checkpoint, TrainingData
from capmeter.encoders import find_encoder
from capmeter.learning.capmeter.examples import Examples
from capmeter.learning.capmeter.recipe import CapmeterRecipe
from capmeter.learning.capmeter.training import BADLY_SAID, LESS, CapmeterLearner, held_out_rows
from capmeter.learning.capmeter.wrong import STILL_TRUE
from capmeter.learning.loop import Run
from capmeter.metrics.capmeter.capmeter import KIND, PARTS, RIGHT

Floats = NDArray[np.float64]
DOUBTED = 0.046
"""The share of word pieces of held-out captions that may be doubted: fewer than five of a hundred words."""
_TURNS = 50


def train_capmeter(
    examples: Examples,
    recipe: CapmeterRecipe,
    folder: Path,
    *,
    layer: int,
    data: Sequence[TrainingData],
    device: str = "cpu",
) -> Checkpoint:
    """Trains, calibrates on the photos held out, and writes the checkpoint into the folder.

    An interrupted run is resumed from `run` there.
    """
    learner = CapmeterLearner(examples, recipe, device)
    outcome = Run(learner, recipe, folder / "run", description="training capmeter", device=device).train()
    weights = {name: array.astype(np.float16) for name, array in outcome.weights.items()}  # half the bytes
    learner.module.load_state_dict({name: torch.from_numpy(each.astype(np.float32)) for name, each in weights.items()})
    learner.module.eval()
    made = Checkpoint(
        kind=KIND,
        parameters={
            "shape": asdict(learner.network.shape),
            "encoder": examples.encoder,
            "encoder_sha256": find_encoder(examples.encoder).sha256,
            "layer": layer,
            "calibration": {name: list(pair) for name, pair in calibration(learner).items()},
        },
        weights={**weights, **examples.known.to_weights()},
        data=tuple(data),
        training=asdict(recipe),
        selection=f"the last of {len(outcome.history)} epochs",
        scores={name: round(value, 4) for name, value in learner.measured().items()},
    )
    made.save(folder)
    return made


def calibration(learner: CapmeterLearner) -> dict[str, tuple[float, float]]:
    """Slope and offset of each logit, from captions of held-out photos and their wrong forms.

    σ(slope · logit + offset) is the probability that a caption is right where as many are right as wrong; of a part,
    among errors that concern it. Words have it at .5 where `DOUBTED` of the right pieces fall below.
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
    found = {part: logistic(logits[part][own], logits[part][np.array(concerns[part])]) for part in PARTS}
    right, wrong = word_logits(learner)
    slope, _ = logistic(right, wrong)
    return {**found, RIGHT: (slope, -slope * float(np.quantile(right, DOUBTED)))}


def word_logits(learner: CapmeterLearner) -> tuple[Floats, Floats]:
    """The logits of the pieces of held-out captions, and of pieces of words made wrong."""
    rows = held_out_rows(learner.examples)
    right: list[Floats] = []
    wrong: list[Floats] = []
    with torch.no_grad():
        for start in range(0, len(rows), 256):
            some = rows[start : start + 256]
            told, mine = learner.told([each[0] for each in some], [each[1] for each in some])
            for k, (sentence, _, form, _) in enumerate(some):
                logits = told.right[k][mine.there[k]].cpu().numpy().astype(np.float64)
                if form is None:
                    right.append(logits)
                elif form.words and (words := learner.examples.words(sentence)) is not None:
                    wrong.append(logits[np.isin(words, form.words)])
    return np.concatenate(right), np.concatenate(wrong)


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
