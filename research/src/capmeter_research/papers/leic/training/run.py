"""A whole run: from images with captions to the checkpoint of a critic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from capmeter.core.checkpoints import Checkpoint, TrainingData
from capmeter.core.errors import InputError
from capmeter.core.settings import Settings
from capmeter_research.common.image_features import FeatureFile
from capmeter_research.common.loop import Outcome, Run
from capmeter_research.common.word_vectors import WordVectors
from capmeter_research.papers.leic.critic import KIND
from capmeter_research.papers.leic.training.examples import CaptionedImage, ImageExamples, as_examples, learn_vocabulary
from capmeter_research.papers.leic.training.network import SEEDED_RANGE, critic_weights
from capmeter_research.papers.leic.training.recipe import CriticRecipe
from capmeter_research.papers.leic.training.training import CriticLearner
from capmeter_research.papers.leic.vocabulary import SPECIAL, CriticVocabulary


def train_critic(
    images: Sequence[CaptionedImage],
    held_out: Sequence[CaptionedImage],
    recipe: CriticRecipe,
    folder: Path,
    *,
    data: Sequence[TrainingData] = (),
    features: FeatureFile | None = None,
    vectors: WordVectors | None = None,
    device: str = "cpu",
) -> Checkpoint:
    """Trains a critic and writes its checkpoint.

    Args:
        images: to train on, each with two human captions or more.
        held_out: images for evaluation after each epoch; may be empty.
        recipe: settings.
        folder: the output folder; an interrupted run there is resumed.
        data: the files of the captions.
        features: of all images, by their ids, for a critic that sees the image.
        vectors: where word vectors start; None: seeded.
        device: a torch device.

    Raises:
        InputError: the recipe needs features or captions that are not given, or vectors of another width.
    """
    vocabulary = learn_vocabulary(images, recipe)
    image_vectors = features if recipe.sees_image else None
    examples = as_examples(images, vocabulary, image_vectors, recipe.steps)
    held_out_examples = as_examples(held_out, vocabulary, image_vectors, recipe.steps) if len(held_out) > 1 else None
    start = initial_vectors(vectors, vocabulary, recipe) if vectors is not None else None
    outcome, learner = _fit_critic(
        examples, held_out_examples, vocabulary, recipe, folder, vectors=start, device=device
    )
    checkpoint = _critic_checkpoint(
        outcome,
        learner,
        vocabulary,
        data=data,
        features="" if image_vectors is None else image_vectors.label(Settings()),
        start=f"seeded {recipe.seed}" if vectors is None else vectors.label,
    )
    checkpoint.save(folder)
    return checkpoint


def _fit_critic(
    examples: ImageExamples,
    held_out: ImageExamples | None,
    vocabulary: CriticVocabulary,
    recipe: CriticRecipe,
    folder: Path,
    *,
    vectors: npt.NDArray[np.float32] | None = None,
    device: str = "cpu",
) -> tuple[Outcome, CriticLearner]:
    """Trains on examples; the outcome and the learner."""
    if recipe.sees_image and examples.features is None:
        raise InputError(f"context={recipe.context} needs image features; give them, or choose context=reference")
    learner = CriticLearner(examples, held_out, vocabulary, recipe, vectors)
    return Run(learner, recipe, folder, description="training the critic", device=device).train(), learner


def _critic_checkpoint(
    outcome: Outcome,
    learner: CriticLearner,
    vocabulary: CriticVocabulary,
    *,
    data: Sequence[TrainingData] = (),
    features: str = "",
    start: str,
) -> Checkpoint:
    """What `capmeter_research.papers.leic.critic.Critic` reads; weights in float16."""
    shape, examples = learner.module.shape, learner.examples
    counts = {"human": len(examples.human.values), **{name: len(each.read) for name, each in examples.given.items()}}
    checkpoint_parameters: dict[str, Any] = {
        **asdict(learner.recipe),
        "negatives": dict(learner.recipe.negatives),
        "hidden": list(learner.recipe.hidden),
        "device": torch.device(learner.device).type,
        "image_count": len(examples),
        "captions": counts,
    }
    return Checkpoint(
        kind=KIND,
        parameters={"shape": shape.to_dict(), "start": start},
        weights={name: each.astype(np.float16) for name, each in critic_weights(outcome.weights, shape).items()},
        features=(features,) if features else (),
        vocabulary=vocabulary.words,
        data=tuple(data),
        training=checkpoint_parameters,
        selection=f"epoch {outcome.epoch}, the last; no benchmark was looked at",
        scores=dict(outcome.scores),
    )


def initial_vectors(
    vectors: WordVectors, vocabulary: CriticVocabulary, recipe: CriticRecipe
) -> npt.NDArray[np.float32]:
    """The vectors of the vocabulary; special tokens and words that have none get that of `unk`, as released.

    Args:
        Wider vectors are projected on as many principal components as the recipe's embedding is wide, and scaled to the
            same mean length as seeded ones would have.
        vectors: of words.
        vocabulary: of the critic.
        recipe: with the width of its embedding.

    Returns:
        (special tokens and words, width).

    Raises:
        InputError: the vectors are narrower than the embedding.
    """
    if vectors.width < recipe.embedding:
        raise InputError(
            f"word vectors of width {vectors.width}, but embedding={recipe.embedding}; set embedding={vectors.width} "
            "or less"
        )
    is_known, known_vectors = vectors.find([*SPECIAL, *vocabulary.words, "unk"])
    is_known[: len(SPECIAL)] = False
    known_vectors[~is_known] = known_vectors[-1]
    if vectors.width == recipe.embedding:
        return known_vectors[:-1]
    centred_vectors = known_vectors[:-1] - known_vectors[:-1].mean(axis=0)
    components = np.linalg.eigh(centred_vectors.T @ centred_vectors)[1][:, ::-1][:, : recipe.embedding]
    # the sign of a component is arbitrary: its largest number is positive
    components = components * np.sign(components[np.abs(components).argmax(axis=0), np.arange(recipe.embedding)])
    projected_vectors = centred_vectors @ components
    scale = SEEDED_RANGE / np.sqrt(3) * np.sqrt(recipe.embedding) / np.linalg.norm(projected_vectors, axis=1).mean()
    initial_values: npt.NDArray[np.float32] = (projected_vectors * scale).astype(np.float32)
    return initial_values
