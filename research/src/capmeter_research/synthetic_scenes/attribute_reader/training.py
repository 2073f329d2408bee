"""The training of the world reader: what the scenes show is read from what an encoder sees, which learns along.

The encoder starts as a trained world encoder. Losses: cross-entropies; of presence and of relations binary ones; of the
centres of groups the absolute difference; of the heat at the centres of things the focal one. Which of two things
stands before the other shows in a few pixels, and few pairs stand so: in the loss these count ten times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from capmeter.core.checkpoints import Checkpoint, TrainingData
from capmeter.core.errors import InputError
from capmeter_research.common.loop import Learner, Outcome, Run, set_seed
from capmeter_research.synthetic_scenes.attribute_reader.network import AttributeReaderShape, SeeingReader
from capmeter_research.synthetic_scenes.attribute_reader.reader import KIND
from capmeter_research.synthetic_scenes.encoder.encoder import WorldEncoder
from capmeter_research.synthetic_scenes.encoder.examples import ATTRIBUTES, SceneExamples
from capmeter_research.synthetic_scenes.encoder.training import SceneTensors, WorldEncoderRecipe, heat_loss, wanted_heat
from capmeter_research.synthetic_scenes.scenes.vocabulary import BACKGROUNDS, KINDS, RELATIONS

_MOST = 5
_NAMES = ("count", *ATTRIBUTES)
_BEFORE = [tuple(RELATIONS).index(name) for name in ("behind", "in front of")]
_COUNTS = 10


@dataclass(frozen=True)
class WorldReaderRecipe(WorldEncoderRecipe):
    """The settings of a run: the encoder's, with other values."""

    epochs: int = 6
    lr: float = 1.5e-3
    pictures: int = 24_000
    held_out: int = 1000


def reader_shape(encoder: WorldEncoder) -> AttributeReaderShape:
    """The shape for this encoder and the vocabulary of synthetic scenes."""
    value_counts = (_MOST, *map(len, ATTRIBUTES.values()))
    unsaid_counts = (0, *(int(attribute_values[0] == "") for attribute_values in ATTRIBUTES.values()))
    return AttributeReaderShape(encoder.shape.slot, value_counts, unsaid_counts, len(RELATIONS), len(BACKGROUNDS))


class ReaderLearner(Learner[Tensor]):
    """The learner of the shared loop; a batch is the rows of its pictures."""

    select = "mean"

    def __init__(
        self, encoder: WorldEncoder, train: SceneExamples, held_out: SceneExamples, recipe: WorldReaderRecipe
    ) -> None:
        set_seed(recipe.seed)
        self.recipe = recipe
        self.train, self.held_out = (SceneTensors.from_examples(each, encoder.device) for each in (train, held_out))
        self.module = self.network = SeeingReader(encoder.shape, reader_shape(encoder))
        self.network.encoder.load_state_dict(encoder.network.state_dict())

    def batches(self, epoch: int, rng: np.random.Generator) -> Sequence[Tensor]:
        """Rows of pictures in random order."""
        picture_order = torch.from_numpy(rng.permutation(len(self.train.pixels)))
        return torch.split(picture_order.to(self.train.pixels.device), self.recipe.batch)

    def losses(self, batch: Tensor, rng: np.random.Generator) -> Mapping[str, Tensor]:
        """See the module."""
        scene_tensors = self.train.rows(batch)
        read, truth, heat = self._read(scene_tensors)
        losses = {
            name: functional.cross_entropy(read[name], truth[name]) for name in ("background", "count", *ATTRIBUTES)
        }
        losses["presence"] = functional.binary_cross_entropy_with_logits(read["presence"], truth["presence"]) * 4
        losses["centre"] = (read["centre"] - truth["centre"]).abs().mean() * 4
        losses["relation"] = relation_loss(read["relation"], truth["relation"]) * 4
        losses["heat"] = heat_loss(heat, wanted_heat(scene_tensors))
        return losses

    def evaluate(self) -> Mapping[str, float]:
        """The shares of held-out statements that are read rightly; of the things of which one stands before the other,
        how often the right one is found; and the mean of all.
        """
        correct_by_name: dict[str, list[Tensor]] = {}
        picture_rows = torch.arange(len(self.held_out.pixels), device=self.held_out.pixels.device)
        for row_chunk in torch.split(picture_rows, 100):
            read, truth, _ = self._read(self.held_out.rows(row_chunk))
            hits_by_name = {name: read[name].argmax(-1) == truth[name] for name in ("background", "count", *ATTRIBUTES)}
            hits_by_name["presence"] = (read["presence"] > 0) == (truth["presence"] > 0)
            is_clear = truth["relation"] >= 0
            hits_by_name["relation"] = ((read["relation"] > 0) == (truth["relation"] > 0))[is_clear]
            predicted_order, true_order = read["relation"][:, _BEFORE], truth["relation"][:, _BEFORE]
            hits_by_name["in front"] = (predicted_order.argmax(-1) == true_order.argmax(-1))[true_order.amax(-1) > 0]
            for name, each in hits_by_name.items():
                correct_by_name.setdefault(name, []).append(each.flatten().float())
        scores = {name: float(torch.cat(each).mean()) for name, each in correct_by_name.items() if sum(map(len, each))}
        return {**scores, "mean": float(np.mean(list(scores.values())))}

    def _read(self, scene_tensors: SceneTensors) -> tuple[dict[str, Tensor], dict[str, Tensor], Tensor]:
        """What is read, and what is so, of everything that is there; and the heat."""
        reading, heat = self.network(scene_tensors.pixels)
        picture, group = (scene_tensors.groups[..., 0] >= 0).nonzero(as_tuple=True)
        true_attributes = scene_tensors.groups[picture, group]
        group_kinds = true_attributes[:, 0]
        is_present = torch.zeros_like(reading.presence)
        is_present[picture, group_kinds] = 1
        read = {"presence": reading.presence, "background": reading.background}
        truth = {"presence": is_present, "background": scene_tensors.background}
        for index, (name, logits) in enumerate(zip(_NAMES, reading.attributes, strict=True)):
            read[name], truth[name] = logits[picture, group_kinds], true_attributes[:, 1 + index] - int(name == "count")
        read["centre"], truth["centre"] = reading.centres[picture, group_kinds], scene_tensors.centres[picture, group]
        picture, first_group, second_group = (scene_tensors.relations.amax(-1) >= 0).nonzero(as_tuple=True)
        kind_table = scene_tensors.groups[..., 0]
        relation_pair = (reading.inner[picture, kind_table[picture, each]] for each in (first_group, second_group))
        read["relation"] = self.network.reader.relations(*relation_pair)
        truth["relation"] = scene_tensors.relations[picture, first_group, second_group].float()
        return read, truth, heat


def relation_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """The binary cross-entropy of what is clear; which of two things stands before the other counts ten times.

    Args:
        logits: float [pairs, relations].
        labels: float [pairs, relations], 1 for true, 0 for false, -1 for unclear.
    """
    is_clear = (labels >= 0).float()
    label_weights = is_clear.clone()
    label_weights[:, _BEFORE] *= torch.where(labels[:, _BEFORE].amax(-1, keepdim=True) > 0, _COUNTS, 1)
    label_losses = functional.binary_cross_entropy_with_logits(logits, labels.clamp(min=0), reduction="none")
    return (label_weights * label_losses).sum() / is_clear.sum().clamp(min=1)


def train_world_reader(
    encoder: WorldEncoder, train: SceneExamples, held_out: SceneExamples, recipe: WorldReaderRecipe, folder: Path
) -> Outcome:
    """Trains a reader of attributes, and writes its checkpoint; an interrupted run is resumed.

    Args:
        encoder: where training starts.
        train, held_out: pictures to train on and to measure on.
        recipe: of the training.
        folder: of the checkpoint and the run.

    Raises:
        InputError: no pictures to train on or to measure on, or the encoder knows other kinds of things.
    """
    if not len(train) or not len(held_out):
        raise InputError(f"{len(train)} pictures to train on and {len(held_out)} held out; expected some of each")
    if encoder.shape.kinds != len(KINDS):
        raise InputError(f"{encoder.label} knows {encoder.shape.kinds} kinds of things; expected {len(KINDS)}")
    learner = ReaderLearner(encoder, train, held_out, recipe)
    outcome = Run(learner, recipe, folder, description="world reader", device=encoder.device).train()
    network = learner.network
    Checkpoint(
        kind=KIND,
        parameters={"encoder": asdict(network.encoder.shape), "shape": asdict(network.reader.shape)},
        weights={weight_name: each.astype(np.float16) for weight_name, each in outcome.weights.items()},
        vocabulary=tuple(KINDS),
        data=(TrainingData(f"world(size={len(train)},seed={recipe.seed})", train.digest, len(train)),),
        training=asdict(recipe),
        selection="the epoch with the highest mean of all scores on held-out pictures (split dev)",
        scores=dict(outcome.scores),
    ).save(folder)
    return outcome
