"""The training of the world reader: what the scenes show is read from what a trained encoder, left as it is, saw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from capmeter.checkpoints import Checkpoint, TrainingData
from capmeter.encoders.world.encoder import WorldEncoder
from capmeter.encoders.world_reader.network import ReaderNetwork, ReaderShape, Reading
from capmeter.encoders.world_reader.reader import KIND, seen
from capmeter.errors import InputError
from capmeter.learning.loop import Learner, Outcome, Run, seeded
from capmeter.learning.recipe import Recipe
from capmeter.learning.world.vocabulary import BACKGROUNDS, KINDS, RELATIONS
from capmeter.learning.world_encoder.examples import ATTRIBUTES, Examples

_MOST = 5
_NAMES = ("count", *ATTRIBUTES)


@dataclass(frozen=True)
class WorldReaderRecipe(Recipe):
    """The settings of a run.

    Args:
        pictures: pictures to train on.
        held_out: pictures of the split `dev` to measure on.
        batch: pictures per step.
    """

    epochs: int = 20
    rate: float = 2e-3
    warmup: float = 0.05
    decay: str = "cosine"
    clip: float = 1.0
    average: float = 0.99
    pictures: int = 12_000
    held_out: int = 1000
    batch: int = 64


def reader_shape(encoder: WorldEncoder) -> ReaderShape:
    """The shape for this encoder and the vocabulary of the made world."""
    values = (_MOST, *map(len, ATTRIBUTES.values()))
    unsaid = (0, *(int(each[0] == "") for each in ATTRIBUTES.values()))
    return ReaderShape(encoder.shape.slot, values, unsaid, len(RELATIONS), len(BACKGROUNDS))


@dataclass(frozen=True, eq=False)
class Seen:
    """What an encoder saw of pictures, and what they show: tensors as in `Examples`."""

    slots: Tensor
    peaks: Tensor
    background: Tensor
    groups: Tensor
    centres: Tensor
    relations: Tensor

    @classmethod
    def of(cls, encoder: WorldEncoder, examples: Examples) -> Seen:
        """Of these pictures."""
        slots, peaks = seen(encoder, examples.pixels)
        known = (examples.background, examples.groups, examples.centres, examples.relations)
        return cls(slots.clone(), peaks.clone(), *(torch.from_numpy(each).to(encoder.device) for each in known))

    def rows(self, rows: Tensor) -> Seen:
        """Of some pictures."""
        return Seen(**{name: each[rows] for name, each in self.__dict__.items()})


class ReaderLearner(Learner[Tensor]):
    """The learner of the shared loop; a batch is the rows of its pictures."""

    select = "mean"

    def __init__(self, train: Seen, held_out: Seen, shape: ReaderShape, recipe: WorldReaderRecipe) -> None:
        seeded(recipe.seed)
        self.recipe, self.train, self.held_out = recipe, train, held_out
        self.module = self.network = ReaderNetwork(shape)

    def batches(self, epoch: int, rng: np.random.Generator) -> Sequence[Tensor]:
        """Rows of pictures in random order."""
        order = torch.from_numpy(rng.permutation(len(self.train.slots)))
        return torch.split(order.to(self.train.slots.device), self.recipe.batch)

    def losses(self, batch: Tensor, rng: np.random.Generator) -> Mapping[str, Tensor]:
        """Cross-entropies; of presence and relations binary ones; of centres the absolute difference."""
        read, known = self._read(self.train.rows(batch))
        return {
            name: functional.cross_entropy(read[name], target)
            if target.dtype == torch.int64
            else (read[name] - target).abs().mean() * 4
            if name == "centre"
            else functional.binary_cross_entropy_with_logits(read[name], target) * 4
            for name, target in known.items()
        }

    def measured(self) -> Mapping[str, float]:
        """The shares of held-out statements that are read rightly, and their mean."""
        read, known = self._read(self.held_out)
        scores = {}
        for name, target in known.items():
            if name != "centre":
                right = (
                    read[name].argmax(-1) == target if target.dtype == torch.int64 else (read[name] > 0) == (target > 0)
                )
                scores[name] = float(right.float().mean())
        return {**scores, "mean": float(np.mean(list(scores.values())))}

    def _read(self, of: Seen) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """What is read, and what is so, of everything that is there."""
        reading: Reading = self.network(of.slots, of.peaks)
        picture, group = (of.groups[..., 0] >= 0).nonzero(as_tuple=True)
        said = of.groups[picture, group]
        kind = said[:, 0]
        there = torch.zeros_like(reading.presence)
        there[picture, kind] = 1
        read = {"presence": reading.presence, "background": reading.background}
        known = {"presence": there, "background": of.background}
        for place, (name, logits) in enumerate(zip(_NAMES, reading.attributes, strict=True)):
            read[name], known[name] = logits[picture, kind], said[:, 1 + place] - int(name == "count")
        read["centre"], known["centre"] = reading.centres[picture, kind], of.centres[picture, group]
        picture, first, second = (of.relations.amax(-1) >= 0).nonzero(as_tuple=True)
        kinds = of.groups[..., 0]
        pair = (reading.inner[picture, kinds[picture, each]] for each in (first, second))
        judged = of.relations[picture, first, second]
        read["relation"] = self.network.relations(*pair)[judged >= 0]
        known["relation"] = judged[judged >= 0].float()
        return read, known


def train_world_reader(
    encoder: WorldEncoder, train: Examples, held_out: Examples, recipe: WorldReaderRecipe, folder: Path
) -> Outcome:
    """Trains a reader of this encoder, and writes its checkpoint to the folder; an interrupted run there is resumed.

    Raises:
        InputError: no pictures to train on or to measure on, or the encoder knows other kinds of things.
    """
    if not len(train) or not len(held_out):
        raise InputError(f"{len(train)} pictures to train on and {len(held_out)} held out; expected some of each")
    if encoder.shape.kinds != len(KINDS):
        raise InputError(f"{encoder.label} knows {encoder.shape.kinds} kinds of things; expected {len(KINDS)}")
    shape = reader_shape(encoder)
    learner = ReaderLearner(Seen.of(encoder, train), Seen.of(encoder, held_out), shape, recipe)
    outcome = Run(learner, recipe, folder, description="world reader", device=encoder.device).train()
    Checkpoint(
        kind=KIND,
        parameters={"shape": asdict(shape), "encoder": encoder.label},
        weights={name: each.astype(np.float16) for name, each in outcome.weights.items()},
        vocabulary=tuple(KINDS),
        data=(TrainingData(f"world(size={len(train)},seed={recipe.seed})", train.digest, len(train)),),
        training=asdict(recipe),
        selection="the epoch with the highest mean of all scores on held-out pictures (split dev)",
        scores=dict(outcome.scores),
    ).save(folder)
    return outcome
