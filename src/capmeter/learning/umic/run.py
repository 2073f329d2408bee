"""A run of UMIC's training, from data to a checkpoint with its scores on held-out pictures."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from capmeter.checkpoints import Checkpoint, TrainingData
from capmeter.encoders.pairs import PairEncoder
from capmeter.encoders.uniter import UniterShape, head_shapes, initial_weights
from capmeter.encoders.uniter_files import uniter_checkpoint
from capmeter.encoders.word_piece import WordPieceTokenizer, learn_vocabulary
from capmeter.errors import InputError
from capmeter.learning.umic.evaluation import told_apart
from capmeter.learning.umic.examples import Examples, WorldPart, world_part
from capmeter.learning.umic.training import WORLD_SHAPE, UmicLearner, UmicModule, UmicRecipe
from capmeter.learning.world import World
from capmeter.transforms.negatives import Negatives

REGIONS = "regions"
"""The folder of the region network beside a checkpoint trained on the made world."""
REGION_KIND = "region-network"
_REGION_EPOCHS = 16


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

        The heads of pretraining that play no part here are dropped.
        """
        import torch

        shape = UniterShape(**found.parameters["shape"])
        kept = {*shape.weights(), *head_shapes(shape, "itm_output"), *head_shapes(shape, "rank_output")}
        weights = {name: torch.tensor(array) for name, array in found.weights.items() if name in kept}
        if "rank_output.weight" not in weights:
            if "itm_output.weight" not in weights:
                raise InputError(f"{found.label}: has no ranking and no matching head; expected UNITER's or UMIC's")
            for part in ("weight", "bias"):
                weights[f"rank_output.{part}"] = weights[f"itm_output.{part}"][1:].clone()
        return cls(weights, shape, found.vocabulary, bool(found.parameters["lowercase"]), found.label)

    @classmethod
    def random(cls, sentences: tuple[str, ...], features: int, seed: int) -> Start:
        """Random weights of a small network, with the vocabulary of these sentences."""
        vocabulary = learn_vocabulary(sentences)
        shape = UniterShape(vocabulary=len(vocabulary), features=features, **WORLD_SHAPE)
        return cls(initial_weights(shape, seed), shape, vocabulary, True, "random weights")


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
) -> Checkpoint:
    """Trains, and returns the checkpoint with the lowest loss on held-out captions, with its scores there."""
    from capmeter.learning.loop import Run, seeded

    seeded(recipe.seed)
    tokenizer = WordPieceTokenizer(start.vocabulary, start.lowercase)
    sampler = negatives.sampler(train.captions, tags=train.tags)
    sampler.prepare()
    held_out_sampler = negatives.sampler(held_out.captions, vocabulary=sampler.vocabulary, tags=held_out.tags)
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


def evaluate_umic(checkpoint: Checkpoint, examples: Examples, negatives: Negatives, device: str) -> dict[str, float]:
    """`told_apart` of a checkpoint on these examples, by kind, and the same with the matching head (`umic-c …`)."""
    sampler = negatives.sampler(examples.captions, tags=examples.tags)
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
    named: Mapping[str, float]
    data: tuple[TrainingData, ...]
    network: Checkpoint


def world_data(
    sizes: tuple[int, int, int], folder: Path, *, seed: int = 0, device: str = "cpu", workers: int = 1
) -> WorldData:
    """Draws the pictures, trains the region network on the training split, and gives every region its features.

    sizes: numbers of pictures for training, selection and test.
    """
    worlds = {
        name: World(split=name, size=size, seed=seed)  # type: ignore[arg-type]
        for name, size in zip(("train", "dev", "test"), sizes, strict=True)
    }
    parts = {name: world_part(world, workers) for name, world in worlds.items()}
    network, features, named = _region_features(parts, folder / REGIONS, device, seed)
    made = {name: part.examples(features[name]) for name, part in parts.items()}
    data = tuple(TrainingData(str(worlds[name]), _digest(parts[name]), len(made[name])) for name in ("train", "dev"))
    return WorldData(made["train"], made["dev"], made["test"], named, data, network)


def _region_features(
    parts: Mapping[str, WorldPart], folder: Path, device: str, seed: int
) -> tuple[Checkpoint, dict[str, Any], Mapping[str, float]]:
    import torch

    from capmeter.learning.loop import Run, seeded
    from capmeter.learning.recipe import Recipe
    from capmeter.learning.umic.crops import HEADS, SIDE
    from capmeter.learning.umic.network import RegionLearner, region_features

    seeded(seed)
    recipe = Recipe(epochs=_REGION_EPOCHS, rate=1e-3, decay="cosine", seed=seed)
    learner = RegionLearner(parts["train"].crops, parts["dev"].crops, device)
    outcome = Run(learner, recipe, folder, description="training the region network", device=device).train()
    network = learner.module
    network.load_state_dict({name: torch.from_numpy(array) for name, array in outcome.weights.items()})
    features = {name: region_features(network.eval(), part.crops.pixels) for name, part in parts.items()}
    made = Checkpoint(
        REGION_KIND,
        {"side": SIDE, "heads": {name: list(known) for name, known in HEADS.items()}},
        outcome.weights,
        training=asdict(recipe),
        selection=f"most regions named on the dev split: epoch {outcome.epoch}",
        scores={name: round(value, 2) for name, value in outcome.scores.items()},
    )
    made.save(folder)
    return made, features, outcome.scores


def _digest(part: WorldPart) -> str:
    digest = hashlib.sha256(repr(part.texts).encode())
    digest.update(np.ascontiguousarray(part.crops.pixels).tobytes())
    return digest.hexdigest()
