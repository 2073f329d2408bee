"""A whole run: from a training set to the checkpoint of a network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

from capmeter.errors import InputError
from capmeter.learning.lceval.averaged import averaged
from capmeter.learning.lceval.recipe import LcEvalRecipe
from capmeter.learning.lceval.training import LcEvalLearner
from capmeter.learning.lceval.training_set import TrainingSet
from capmeter.learning.loop import Outcome, Run
from capmeter.metrics.lceval.checkpoint import checkpoint_of


def train_lceval(
    known: TrainingSet,
    recipe: LcEvalRecipe,
    folder: Path,
    *,
    threads: int = 1,
    device: str = "cpu",
    description: str = "training lceval",
) -> Outcome:
    """Trains a network on the examples that are not held out, and writes its checkpoint.

    With several starts there are no epochs: the outcome has epoch 0 and no history.

    Args:
        known: the training set.
        recipe: settings.
        folder: the output folder; an interrupted run there is resumed.
        threads: number of threads.
        device: a torch device. Weights made on a GPU are repeated nearly, not bit for bit.
        description: for the progress bar.

    Raises:
        InputError: no example of people or of machines to learn from.
    """
    torch.set_num_threads(threads)
    learned = ~known.held_out
    counts = [int((learned & side).sum()) for side in (known.human, ~known.human)]
    if not all(counts):
        raise InputError(
            f"{counts[0]} examples of people and {counts[1]} of machines to learn from; expected some of each"
        )
    if recipe.starts > 1:
        learner = averaged(known, recipe, description)
        weights = {name: values.numpy() for name, values in learner.module.state_dict().items()}
        outcome = Outcome(weights, 0, learner.measured(), ())
    else:
        learner = LcEvalLearner(known, recipe)
        outcome = Run(learner, recipe, folder, description=description, device=device).train()
    chosen = known.judged.name if known.judged is not None else "accuracy on held-out photos"
    systems = sorted(set(known.systems[~known.human].tolist()))
    checkpoint_of(
        {name: values.astype(np.float32) for name, values in learner.network(outcome.weights).to_weights().items()},
        known.features.names,
        pool=known.features.pool,
        vectors=known.features.vectors,
        base=known.base,
        data=known.data,
        training={
            **asdict(recipe),
            "hidden": list(recipe.hidden),
            "epoch": outcome.epoch,
            "parser": known.features.parser,
            "examples_of_people": counts[0],
            "examples_of_machines": counts[1],
            "held_out": int(known.held_out.sum()),
            "systems": systems,
            "threads": threads,
        },
        selection=_selection(chosen, known.judged is not None, recipe),
        scores=scores_of(outcome),
    ).save(folder)
    return outcome


def _selection(chosen: str, judged: bool, recipe: LcEvalRecipe) -> str:
    score = f"Kendall's τ on {chosen}" if judged else chosen
    if recipe.starts > 1:
        return f"the mean of {recipe.starts} starts, fitted to the end; measured by {score}"
    return f"the epoch with the highest {score}"


def scores_of(outcome: Outcome) -> Mapping[str, float]:
    """The selected epoch's scores, rounded as a card prints them."""
    return {name: round(value, 6) for name, value in outcome.scores.items()}
