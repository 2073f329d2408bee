"""A whole run: from images with captions to the checkpoint of a critic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from capmeter.checkpoints import Checkpoint, TrainingData
from capmeter.errors import InputError
from capmeter.learning.leic.examples import CaptionedImage, Examples, as_examples, learn_vocabulary
from capmeter.learning.leic.network import critic_weights
from capmeter.learning.leic.recipe import CriticRecipe
from capmeter.learning.leic.training import CriticLearner
from capmeter.learning.loop import Outcome, Run
from capmeter.metrics.leic.critic import KIND
from capmeter.metrics.leic.vocabulary import SPECIAL, CriticVocabulary
from capmeter.text.vectors import WordVectors


@dataclass(frozen=True, eq=False)
class ImageFeatures:
    """The features of images: their name (file, extractor, hash), and a row for each image of a run, in order."""

    name: str
    table: npt.NDArray[np.float32]


def train_critic(
    images: Sequence[CaptionedImage],
    held_out: Sequence[CaptionedImage],
    recipe: CriticRecipe,
    folder: Path,
    *,
    data: Sequence[TrainingData] = (),
    features: tuple[ImageFeatures, ImageFeatures] | None = None,
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
        features: of `images` and of `held_out`, for a critic that sees the image.
        vectors: where word vectors start; None: seeded.
        device: a torch device.

    Raises:
        InputError: the recipe needs features or captions that are not given, or vectors of another width.
    """
    vocabulary = learn_vocabulary(images, recipe)
    tables = (None, None) if features is None else tuple(each.table for each in features)
    examples = as_examples(images, vocabulary, tables[0])
    kept = as_examples(held_out, vocabulary, tables[1]) if held_out else None
    start = initial_vectors(vectors, vocabulary, recipe) if vectors is not None else None
    outcome, learner = fit(examples, kept, vocabulary, recipe, folder, vectors=start, device=device)
    checkpoint = critic_checkpoint(
        outcome,
        learner,
        vocabulary,
        data=data,
        features=features[0].name if features is not None else "",
        start=f"seeded {recipe.seed}" if vectors is None else vectors.label,
    )
    checkpoint.save(folder)
    return checkpoint


def fit(
    examples: Examples,
    held_out: Examples | None,
    vocabulary: CriticVocabulary,
    recipe: CriticRecipe,
    folder: Path,
    *,
    vectors: npt.NDArray[np.float32] | None = None,
    device: str = "cpu",
) -> tuple[Outcome, CriticLearner]:
    """Trains on examples; the outcome and the learner."""
    if recipe.context in ("image", "both") and examples.features is None:
        raise InputError(f"context={recipe.context} needs image features; give them, or choose context=reference")
    learner = CriticLearner(examples, held_out, vocabulary, recipe, vectors)
    return Run(learner, recipe, folder, description="training the critic", device=device).train(), learner


def critic_checkpoint(
    outcome: Outcome,
    learner: CriticLearner,
    vocabulary: CriticVocabulary,
    *,
    data: Sequence[TrainingData] = (),
    features: str = "",
    start: str,
) -> Checkpoint:
    """What `capmeter.metrics.leic.critic.Critic` reads; weights in float16."""
    shape, examples = learner.module.shape, learner.examples
    counts = {name: int(rows.lengths.sum()) for name, rows in {"human": examples.human, **examples.given}.items()}
    said: dict[str, Any] = {
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
        training=said,
        selection=f"epoch {outcome.epoch}, the last; no benchmark was looked at",
        scores=dict(outcome.scores),
    )


def initial_vectors(
    vectors: WordVectors, vocabulary: CriticVocabulary, recipe: CriticRecipe
) -> npt.NDArray[np.float32]:
    """The vectors of the vocabulary; special tokens and words that have none get that of `unk`, as released."""
    if vectors.width != recipe.embedding:
        raise InputError(
            f"word vectors of width {vectors.width}, but embedding={recipe.embedding}; set embedding={vectors.width}"
        )
    known, found = vectors.find([*SPECIAL, *vocabulary.words, "unk"])
    known[: len(SPECIAL)] = False
    found[~known] = found[-1]
    return found[:-1]
