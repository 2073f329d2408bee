"""What is learned of the critic: human or not, by cross-entropy (Eq. 5) of one positive and one negative per image."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from capmeter.core.checkpoints import Checkpoint, TrainingData
from capmeter.core.errors import InputError
from capmeter.core.settings import Settings
from capmeter_research.common.image_features import FeatureFile
from capmeter_research.common.loop import Learner, Run, set_seed
from capmeter_research.common.word_vectors import WordVectors
from capmeter_research.papers.leic.critic import KIND
from capmeter_research.papers.leic.training.examples import (
    CaptionedImage,
    ImageExamples,
    Integers,
    as_examples,
    learn_vocabulary,
)
from capmeter_research.papers.leic.training.network import SEEDED_RANGE, CriticModule, critic_weights, forget_by_default
from capmeter_research.papers.leic.training.recipe import CriticRecipe
from capmeter_research.papers.leic.training.sampling import PairSampler, Sample
from capmeter_research.papers.leic.vocabulary import SPECIAL, CriticVocabulary

_MEASURED = 2000  # held-out images
_AT_ONCE = 500
_SEED = 15
_BRIEF = 10  # words


class CriticLearner(Learner[Integers]):
    """The critic in training.

    Args:
        examples: images to train on.
        held_out: images for evaluation after each epoch; may be None.
        vocabulary: words.
        recipe: settings.
        vectors: initial word vectors [words, embedding], or None for seeded ones.
    """

    def __init__(
        self,
        examples: ImageExamples,
        held_out: ImageExamples | None,
        vocabulary: CriticVocabulary,
        recipe: CriticRecipe,
        vectors: npt.NDArray[np.float32] | None = None,
    ) -> None:
        self.recipe, self.examples, self.held_out = recipe, examples, held_out
        self.sampler = PairSampler(examples, vocabulary, recipe.negatives, recipe.others)
        self._checks = [] if held_out is None else _each_source(held_out, vocabulary, recipe)
        set_seed(recipe.seed)
        shape = recipe.shape(0 if examples.features is None else examples.features.shape[1])
        self.module: CriticModule = CriticModule(shape, len(vocabulary), recipe.dropout)
        forget_by_default(self.module)
        if vectors is not None:
            with torch.no_grad():
                self.module.embedding.weight.copy_(torch.from_numpy(vectors))

    def optimizer(self, lr: float) -> torch.optim.Optimizer:
        """Adam."""
        return torch.optim.Adam(self.module.parameters(), lr=lr, fused=True)

    def batches(self, epoch: int, rng: np.random.Generator) -> Sequence[Integers]:
        """Every image once, in a new order; in the first epochs, if the recipe says so, those with short captions."""
        image_rows = self.sampler.images
        if epoch < self.recipe.brief:
            human = self.examples.human
            mean_lengths = np.add.reduceat(self.examples.lengths[human.values], human.offsets[:-1]) / human.lengths
            short_images = image_rows[mean_lengths[image_rows] <= _BRIEF]
            image_rows = short_images if len(short_images) > 1 else image_rows
        image_rows = rng.permutation(image_rows)
        return np.array_split(image_rows, math.ceil(len(image_rows) / self.recipe.images))

    def losses(self, batch: Integers, rng: np.random.Generator) -> Mapping[str, Tensor]:
        """The cross-entropy of human (0) and machine (1), the same weight for both."""
        sample = self.sampler.draw(batch, rng)
        human, machine = (functional.log_softmax(logits.float(), 1) for logits in self._logits(sample, self.examples))
        pair_weights = torch.from_numpy(sample.weight).to(self.device)
        return {"cross-entropy": -(human[:, 0].sum() + (pair_weights * machine[:, 1]).sum()) / (2 * len(batch))}

    def _logits(self, sample: Sample, examples: ImageExamples) -> tuple[Tensor, Tensor]:
        """The logits of the positive and of the negative pairs."""
        shape, device, image_count = self.module.shape, self.device, len(sample.images)
        unread = 0 if shape.sees_reference else image_count
        word_windows = sample.windows[unread:, : int(sample.lengths.max())]
        states = self.module.read(torch.from_numpy(word_windows).to(device), torch.from_numpy(sample.lengths[unread:]))
        pair_rows, negative = (torch.from_numpy(each).to(device) for each in (sample.row, sample.negative - unread))
        reference_states = states[:image_count] if shape.sees_reference else None
        image_features = None
        if shape.sees_image and examples.features is not None:
            image_features = torch.from_numpy(examples.features[sample.images]).to(device)
        positive_states = states[image_count - unread : 2 * image_count - unread]
        return (
            self.module(image_features, reference_states, positive_states),
            self.module(image_features, reference_states, states[negative], pair_rows),
        )

    def evaluate(self) -> Mapping[str, float]:
        """On held-out images s(Θ, ·) of human captions, of each source of negatives, and the mean of both classes."""
        if self.held_out is None:
            return {}
        human_scores: list[Tensor] = []
        logits_by_source: dict[str, list[Tensor]] = {}
        for source, pair_sample in self._checks:
            human, machine = (logits.float().softmax(1) for logits in self._logits(pair_sample, self.held_out))
            human_scores.append(human[:, 0])
            logits_by_source.setdefault(source, []).append(machine[:, 1])
        scores = {source: float(torch.cat(source_scores).mean()) for source, source_scores in logits_by_source.items()}
        human_score = float(torch.cat(human_scores).mean())
        mean_score = (human_score + sum(scores.values()) / len(scores)) / 2
        return {name: round(value, 5) for name, value in {"s": mean_score, "human": human_score, **scores}.items()}


def _each_source(
    held_out: ImageExamples, vocabulary: CriticVocabulary, recipe: CriticRecipe
) -> list[tuple[str, Sample]]:
    """Pairs of held-out images with negatives of each source, the same after every epoch."""
    source_samples = []
    for source_name, share in recipe.negatives:
        pair_sampler = PairSampler(held_out, vocabulary, ((source_name, share),))
        images = pair_sampler.images[:_MEASURED]
        rng = np.random.default_rng(_SEED)
        image_parts = np.array_split(images, math.ceil(len(images) / _AT_ONCE))
        source_samples += [(source_name, pair_sampler.draw(part, rng)) for part in image_parts if len(part) > 1]
    return source_samples


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
    start, start_name = None, f"seeded {recipe.seed}"
    if vectors is not None:
        start, start_name = initial_vectors(vectors, vocabulary, recipe), vectors.label
    if recipe.sees_image and examples.features is None:
        raise InputError(f"context={recipe.context} needs image features; give them, or choose context=reference")
    learner = CriticLearner(examples, held_out_examples, vocabulary, recipe, start)
    outcome = Run(learner, recipe, folder, description="training the critic", device=device).train()
    shape = learner.module.shape
    counts = {"human": len(examples.human.values), **{name: len(each.read) for name, each in examples.given.items()}}
    checkpoint = Checkpoint(
        kind=KIND,
        parameters={"shape": shape.to_dict(), "start": start_name},
        weights={name: each.astype(np.float16) for name, each in critic_weights(outcome.weights, shape).items()},
        features=() if image_vectors is None else (image_vectors.label(Settings()),),
        vocabulary=vocabulary.words,
        data=tuple(data),
        training={
            **asdict(recipe),
            "negatives": dict(recipe.negatives),
            "hidden": list(recipe.hidden),
            "device": torch.device(learner.device).type,
            "image_count": len(examples),
            "captions": counts,
        },
        selection=f"epoch {outcome.epoch}, the last; no benchmark was looked at",
        scores=dict(outcome.scores),
    )
    checkpoint.save(folder)
    return checkpoint


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
