"""A run of UMIC's training, from data to a checkpoint with its scores on held-out pictures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.checkpoints import Checkpoint, TrainingData
from capmeter.encoders.pairs import PairEncoder
from capmeter.encoders.uniter import UniterShape, head_shapes, initial_weights
from capmeter.encoders.uniter_files import uniter_checkpoint
from capmeter.encoders.word_piece import WordPieceTokenizer, learn_vocabulary
from capmeter.errors import InputError
from capmeter.learning.umic.evaluation import told_apart
from capmeter.learning.umic.examples import Examples, RegionEncoder, world_examples
from capmeter.learning.umic.training import WORLD_SHAPE, UmicLearner, UmicModule, UmicRecipe
from capmeter.learning.world import World
from capmeter.transforms.negatives import Negatives
from capmeter.transforms.similarity import Scorer

_DEVIATION = 0.08
"""Of the first weights of a small network, 1 / sqrt(width): the authors' .02 suits a width of 768."""
_PLACES = "uniter.embeddings.position_embeddings.weight"


def sinusoids(positions: int, width: int) -> npt.NDArray[np.float32]:
    """The Transformer's embeddings of positions (Vaswani et al. 2017), float32[positions, width]: sines, then cosines.

    >>> [round(float(number), 2) for number in sinusoids(2, 4)[1]]
    [0.84, 0.01, 0.54, 1.0]
    """
    angles = np.arange(positions)[:, None] / 10000 ** (np.arange(0, width, 2) / width)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)


@dataclass(frozen=True)
class Start:
    """What a run starts from: weights, their shape, the vocabulary and whether captions are lower-cased."""

    weights: Mapping[str, Any]
    shape: UniterShape
    vocabulary: tuple[str, ...]
    lowercase: bool
    name: str

    @classmethod
    def checkpoint(cls, found: Checkpoint) -> Start:
        """From a checkpoint; without a ranking head, row 1 of the matching head becomes it, as in the released code.

        The heads of pretraining that play no part here are dropped. Weights that are kept in half precision are trained
        in single precision.
        """
        import torch

        shape = UniterShape(**found.parameters["shape"])
        kept = {*shape.weights(), *head_shapes(shape, "itm_output"), *head_shapes(shape, "rank_output")}
        weights = {name: torch.tensor(array).float() for name, array in found.weights.items() if name in kept}
        if "rank_output.weight" not in weights:
            if "itm_output.weight" not in weights:
                raise InputError(f"{found.label}: has no ranking and no matching head; expected UNITER's or UMIC's")
            for part in ("weight", "bias"):
                weights[f"rank_output.{part}"] = weights[f"itm_output.{part}"][1:].clone()
        return cls(weights, shape, found.vocabulary, bool(found.parameters["lowercase"]), found.label)

    @classmethod
    def random(cls, sentences: tuple[str, ...], features: int, seed: int) -> Start:
        """Random weights of a small network, with the vocabulary of these sentences.

        The keys of attention begin as its queries, so that at first every token attends to what is like it; the
        embeddings of positions begin as sinusoids, in which neighbours are alike.
        """
        import torch

        vocabulary = learn_vocabulary(sentences)
        shape = UniterShape(vocabulary=len(vocabulary), features=features, **WORLD_SHAPE)
        weights = initial_weights(shape, seed, _DEVIATION)
        for name in weights:
            if ".key." in name:
                weights[name] = weights[name.replace(".key.", ".query.")].clone()
        weights[_PLACES] = torch.from_numpy(sinusoids(shape.positions, shape.width) * np.float32(_DEVIATION * 2**0.5))
        return cls(weights, shape, vocabulary, True, "random weights")


def train_umic(
    start: Start,
    train: Examples,
    held_out: Examples,
    negatives: Negatives,
    recipe: UmicRecipe,
    folder: Path,
    *,
    data: tuple[TrainingData, ...],
    device: str = "cpu",
    workers: int = 1,
    scorer: Scorer | None = None,
) -> Checkpoint:
    """Trains, and returns the checkpoint with the lowest loss on held-out captions, with its scores there.

    scorer: compares images if the negatives' similarity is a metric.
    """
    from capmeter.learning.loop import Run, seeded

    seeded(recipe.seed)
    tokenizer = WordPieceTokenizer(start.vocabulary, start.lowercase)
    sampler = negatives.sampler(train.captions, tags=train.tags, scorer=scorer)
    sampler.prepare()
    held_out_sampler = negatives.sampler(
        held_out.captions, vocabulary=sampler.vocabulary, tags=held_out.tags, scorer=scorer
    )
    learner = UmicLearner(
        start.weights, start.shape, tokenizer, (train, sampler), (held_out, held_out_sampler), recipe, workers
    )
    outcome = Run(learner, recipe, folder, description="training umic", device=device).train()
    made = uniter_checkpoint(
        UmicModule.published(outcome.weights),
        start.shape,
        start.vocabulary,
        lowercase=start.lowercase,
        data=data,
        training={**asdict(recipe), "negatives": str(negatives), "start": start.name},
        selection=f"the lowest ranking loss on held-out pictures: epoch {outcome.epoch} of {len(outcome.history)}",
        scores={name: round(value, 4) for name, value in outcome.scores.items()},
    )
    made.save(folder)
    return made


def evaluate_umic(
    checkpoint: Checkpoint, examples: Examples, negatives: Negatives, device: str, scorer: Scorer | None = None
) -> dict[str, float]:
    """`told_apart` of a checkpoint on these examples, by kind, and the same with the matching head (`umic-c …`)."""
    sampler = negatives.sampler(examples.captions, tags=examples.tags, scorer=scorer)
    sampler.prepare()
    encoder = PairEncoder(checkpoint, device, "float32")
    found = told_apart(encoder, examples, sampler)
    if "itm_output" in encoder.heads:
        matched = told_apart(encoder, examples, sampler, head="itm_output")
        found |= {f"umic-c {kind}": value for kind, value in matched.items()}
    return found


@dataclass(frozen=True, eq=False)
class WorldData:
    """The made world's pictures for training, selection and test, with features of their regions."""

    train: Examples
    dev: Examples
    test: Examples
    data: tuple[TrainingData, ...]


def world_data(sizes: tuple[int, int, int], encoder: RegionEncoder, *, seed: int = 0, workers: int = 1) -> WorldData:
    """Draws the pictures, and lets the encoder give every region its features.

    sizes: numbers of pictures for training, selection and test.
    """
    splits = zip(("train", "dev", "test"), sizes, strict=True)
    worlds = [World(split=name, size=size, seed=seed) for name, size in splits]  # type: ignore[arg-type]
    made = [world_examples(world, encoder, workers) for world in worlds]
    data = tuple(TrainingData(str(worlds[k]), made[k][1], len(made[k][0])) for k in (0, 1))
    train, dev, test = (each for each, _ in made)
    return WorldData(train, dev, test, data)
