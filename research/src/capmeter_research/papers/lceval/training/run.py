"""Trains a network of LCEval: from a training set to a checkpoint."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

from capmeter.core.errors import InputError
from capmeter_research.common.loop import Outcome, Run
from capmeter_research.papers.lceval.checkpoint import build_checkpoint
from capmeter_research.papers.lceval.training.recipe import LcEvalRecipe
from capmeter_research.papers.lceval.training.seed_ensemble import distil_seed_ensemble
from capmeter_research.papers.lceval.training.training import LcEvalLearner
from capmeter_research.papers.lceval.training.training_set import TrainingSet


def train_lceval(
    examples: TrainingSet,
    recipe: LcEvalRecipe,
    folder: Path,
    *,
    threads: int = 1,
    description: str = "training lceval",
) -> Outcome:
    """Trains a network on the examples that are not held out, and writes its checkpoint.

    With several restarts there are no epochs: the outcome has epoch 0 and no history.

    Args:
        examples: the training set.
        recipe: settings.
        folder: the output folder; an interrupted run there is resumed.
        threads: number of threads.
        description: for the progress bar.

    Raises:
        InputError: there are no human or no machine captions to train on.
    """
    torch.set_num_threads(threads)
    is_human = examples.human[~examples.held_out]
    counts = int(is_human.sum()), int((~is_human).sum())
    if not all(counts):
        raise InputError(f"{counts[0]} human and {counts[1]} machine captions to train on; expected some of each")
    if recipe.restarts > 1:
        learner = distil_seed_ensemble(examples, recipe, description)
        weights = {name: values.numpy() for name, values in learner.module.state_dict().items()}
        outcome = Outcome(weights, 0, learner.evaluate(), ())
    else:
        learner = LcEvalLearner(examples, recipe)
        outcome = Run(learner, recipe, folder, description=description).train()
    weights, features = learner.to_network(outcome.weights).to_weights(), examples.features
    build_checkpoint(
        {name: values.astype(np.float32) for name, values in weights.items()},
        features.names,
        pool=features.pool,
        vectors=features.vectors,
        baseline=examples.mean_features,
        data=examples.data,
        training={
            **asdict(recipe),
            "hidden": list(recipe.hidden),
            "epoch": outcome.epoch,
            "parser": features.parser,
            "human_captions": counts[0],
            "machine_captions": counts[1],
            "perturbed": len(examples.perturbed),
            "held_out": int(examples.held_out.sum()),
            "systems": sorted(set(examples.systems[~examples.human].tolist())),
            "threads": threads,
        },
        selection=_describe_selection(examples, recipe),
        scores={score_name: round(score, 6) for score_name, score in outcome.scores.items()},
    ).save(folder)
    return outcome


def _describe_selection(examples: TrainingSet, recipe: LcEvalRecipe) -> str:
    judgments = examples.judgments
    score_name = "accuracy on held-out photos" if judgments is None else f"Kendall's τ on {judgments.name}"
    if recipe.restarts > 1:
        return f"distilled from {recipe.restarts} restarts, fitted to convergence; evaluated by {score_name}"
    return f"the epoch with the highest {score_name}"
