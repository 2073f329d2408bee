"""The training of the world encoder: what is known of a picture is read from its features.

Losses (cross-entropies unless said otherwise): the heat at the centres of things (focal); of every region its label,
colour, texture and size; of every group, from the slot of its kind: count, colour, texture, size, place (absolute
difference); of every two groups, from both slots: which relations hold (binary; unclear ones are left out); the
background. The heads that read them are dropped after training, and slots are whitened (`WorldLearner.whiten`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from capmeter.core.checkpoints import Checkpoint, TrainingData
from capmeter.core.errors import InputError
from capmeter_research.common.loop import Learner, Outcome, Run, set_seed
from capmeter_research.common.recipe import Recipe
from capmeter_research.synthetic_scenes.encoder.encoder import KIND, weights_of
from capmeter_research.synthetic_scenes.encoder.examples import ATTRIBUTES, LABELS, SceneExamples
from capmeter_research.synthetic_scenes.encoder.network import SIDE, WorldNetwork, WorldShape
from capmeter_research.synthetic_scenes.scenes.vocabulary import BACKGROUNDS, KINDS, RELATIONS

_CELLS = SIDE // 4
_MOST = 5
_RIDGE = 1e-6  # of the largest moment


@dataclass(frozen=True)
class WorldEncoderRecipe(Recipe):
    """The settings of a run.

    Args:
        pictures: pictures to train on.
        held_out: pictures of the split `dev` to measure on.
        batch: pictures per step.
    """

    epochs: int = 12
    lr: float = 2e-3
    warmup: float = 0.05
    lr_schedule: str = "cosine"
    max_grad_norm: float = 1.0
    ema_decay: float = 0.99
    pictures: int = 10_000
    held_out: int = 400
    batch: int = 48


@dataclass(frozen=True, eq=False)
class SceneTensors:
    """Tensors of the examples, on the device."""

    pixels: Tensor
    background: Tensor
    regions: Tensor
    what: Tensor
    groups: Tensor
    centres: Tensor
    relations: Tensor

    @classmethod
    def from_examples(cls, examples: SceneExamples, device: str) -> SceneTensors:
        """Of these examples."""
        tensor_names = ("pixels", "background", "regions", "what", "groups", "centres", "relations")
        return cls(**{name: torch.from_numpy(getattr(examples, name)).to(device) for name in tensor_names})

    def rows(self, rows: Tensor) -> SceneTensors:
        """Of some pictures."""
        return SceneTensors(**{tensor_name: scene_tensor[rows] for tensor_name, scene_tensor in self.__dict__.items()})


class WorldModel(nn.Module):
    """The network with the heads that are needed for training."""

    def __init__(self, shape: WorldShape) -> None:
        super().__init__()
        self.network = WorldNetwork(shape)
        self.label = nn.Linear(shape.region, len(LABELS))
        self.attributes = nn.ModuleDict({name: nn.Linear(shape.region, len(v)) for name, v in ATTRIBUTES.items()})
        self.counts = nn.Linear(shape.slot, _MOST + 1)
        self.looks = nn.ModuleDict({name: nn.Linear(shape.slot, len(v)) for name, v in ATTRIBUTES.items()})
        self.centre = nn.Linear(shape.slot, 2)
        self.background = nn.Linear(shape.slot, len(BACKGROUNDS))
        self.first = nn.Linear(2 * shape.slot, 128)
        self.related = nn.Linear(128, len(RELATIONS))


class WorldLearner(Learner[Tensor]):
    """The learner of the shared loop; a batch is the rows of its pictures."""

    select = "mean"

    def __init__(self, train: SceneExamples, held_out: SceneExamples, recipe: WorldEncoderRecipe, device: str) -> None:
        set_seed(recipe.seed)
        self.shape, self.recipe = WorldShape(len(KINDS)), recipe
        self.module = self.model = WorldModel(self.shape)
        self._train, self._held_out = (
            SceneTensors.from_examples(train, device),
            SceneTensors.from_examples(held_out, device),
        )

    def batches(self, epoch: int, rng: np.random.Generator) -> Sequence[Tensor]:
        """Rows of pictures in random order."""
        picture_order = torch.from_numpy(rng.permutation(len(self._train.pixels)))
        return torch.split(picture_order.to(self._train.pixels.device), self.recipe.batch)

    def losses(self, batch: Tensor, rng: np.random.Generator) -> Mapping[str, Tensor]:
        """See the module."""
        truth = self._train.rows(batch)
        read = self._read(truth)
        losses = {"heat": heat_loss(read.heat, read.wanted)}
        for class_name, (class_logits, class_targets) in read.classes.items():
            losses[class_name] = functional.cross_entropy(class_logits.float(), class_targets)
        losses["centre"] = (read.centres.float() - read.true_centres).abs().mean() * 4
        losses["relation"] = (
            functional.binary_cross_entropy_with_logits(read.relations.float(), read.true_relations) * 2
        )
        return losses

    def evaluate(self) -> Mapping[str, float]:
        """The shares of held-out statements that are read rightly, and their mean."""
        hits_by_name: dict[str, list[float]] = {}
        picture_rows = torch.arange(len(self._held_out.pixels), device=self._held_out.pixels.device)
        for row_chunk in torch.split(picture_rows, 100):
            read = self._read(self._held_out.rows(row_chunk))
            for class_name, (class_logits, targets) in read.classes.items():
                hits_by_name.setdefault(class_name, []).extend((class_logits.argmax(-1) == targets).float().tolist())
            is_correct = ((read.relations > 0) == (read.true_relations > 0.5)).float()
            hits_by_name.setdefault("relation", []).extend(is_correct.tolist())
            is_present = read.heat.flatten(2).amax(-1) > 0
            truly_present = read.wanted.flatten(2).amax(-1) > 0.5
            hits_by_name.setdefault("presence", []).extend((is_present == truly_present).all(-1).float().tolist())
        scores = {class_name: float(np.mean(class_hits)) for class_name, class_hits in hits_by_name.items()}
        return {**scores, "mean": float(np.mean(list(scores.values())))}

    def whiten(self) -> None:
        """Folds linear maps into the layers of the slots: over the training pictures, the slots of kinds that are there
        have the identity as their second moment, and so has the background's.

        What is read from a slot is still read from it; but colours, which vary by little, weigh as much as presence.
        """
        network, slot_parts, background_parts = self.model.network.eval(), [], []
        picture_rows = torch.arange(len(self._train.pixels), device=self._train.pixels.device)
        with torch.no_grad():
            for row_chunk in torch.split(picture_rows, 100):
                truth = self._train.rows(row_chunk)
                slot_values, _ = network.slots(network.maps(truth.pixels))
                picture_index, group_index = (truth.groups[..., 0] >= 0).nonzero(as_tuple=True)
                slot_parts.append(slot_values[picture_index, truth.groups[picture_index, group_index, 0]])
                background_parts.append(slot_values[:, -1])
            for layer, value_parts in ((network.slot, slot_parts), (network.background, background_parts)):
                whitening_map = _whitening(torch.cat(value_parts)).to(layer.weight)
                layer.weight.copy_(whitening_map @ layer.weight)
                layer.bias.copy_(whitening_map @ layer.bias)

    def _read(self, truth: SceneTensors) -> _Read:
        model, network = self.model, self.model.network
        maps = network.maps(truth.pixels)
        slots, heat = network.slots(maps)
        read = _Read(heat, wanted_heat(truth))
        picture, region = (truth.what[..., 0] >= 0).nonzero(as_tuple=True)
        region_labels, region_boxes = truth.what[picture, region], truth.regions[picture, region]
        region_features = network.regions(maps, region_boxes, picture)
        read.classes["label"] = model.label(region_features), region_labels[:, 0]
        has_object = region_labels[:, 1] >= 0
        for k, (name, head) in enumerate(model.attributes.items()):
            read.classes[f"region-{name}"] = head(region_features[has_object]), region_labels[has_object, 1 + k]
        picture, group = (truth.groups[..., 0] >= 0).nonzero(as_tuple=True)
        true_attributes = truth.groups[picture, group]
        object_slots = slots[picture, true_attributes[:, 0]]
        read.classes["count"] = model.counts(object_slots), true_attributes[:, 1]
        for k, (name, head) in enumerate(model.looks.items()):
            read.classes[name] = head(object_slots), true_attributes[:, 2 + k]
        read.classes["background"] = model.background(slots[:, -1]), truth.background
        read.centres, read.true_centres = model.centre(object_slots), truth.centres[picture, group]
        picture, first, second = (truth.relations[..., 0] >= -1).nonzero(as_tuple=True)
        kinds = truth.groups[..., 0]
        is_valid = (kinds[picture, first] >= 0) & (kinds[picture, second] >= 0) & (first != second)
        picture, first, second = picture[is_valid], first[is_valid], second[is_valid]
        pair = torch.cat([slots[picture, kinds[picture, first]], slots[picture, kinds[picture, second]]], dim=-1)
        relation_labels = truth.relations[picture, first, second]
        is_clear = relation_labels >= 0
        read.relations = model.related(functional.relu(model.first(pair)))[is_clear]
        read.true_relations = relation_labels[is_clear].float()
        return read


@dataclass(eq=False)
class _Read:
    """What the network says of a batch, beside what is so."""

    heat: Tensor
    wanted: Tensor
    classes: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)
    centres: Tensor = field(default_factory=lambda: torch.zeros(0))
    true_centres: Tensor = field(default_factory=lambda: torch.zeros(0))
    relations: Tensor = field(default_factory=lambda: torch.zeros(0))
    true_relations: Tensor = field(default_factory=lambda: torch.zeros(0))


def _whitening(values: Tensor) -> Tensor:
    """The symmetric map after which these rows have the identity as their second moment."""
    moments, axes = torch.linalg.eigh(values.double().T @ values.double() / len(values))
    whitening_map: Tensor = axes @ torch.diag((moments + _RIDGE * moments.max()) ** -0.5) @ axes.T
    return whitening_map


def wanted_heat(truth: SceneTensors) -> Tensor:
    """float [b, kinds, 24, 24]: 1 in the cell of the centre of every thing."""
    target_heat = torch.zeros(len(truth.pixels), len(KINDS), _CELLS, _CELLS, device=truth.pixels.device)
    picture_index, region_index = (truth.what[..., 1] >= 0).nonzero(as_tuple=True)
    region_boxes = truth.regions[picture_index, region_index]
    x, y = (((region_boxes[:, k] + region_boxes[:, k + 2]) / 2 * _CELLS).long().clamp(0, _CELLS - 1) for k in (0, 1))
    target_heat[picture_index, truth.what[picture_index, region_index, 0], y, x] = 1
    return target_heat


def heat_loss(heat: Tensor, target: Tensor) -> Tensor:
    """Focal loss, per thing; the cells around a centre count less, since a centre is not found to the cell."""
    near_target = functional.max_pool2d(target, 3, 1, 1)
    log_yes, log_no = functional.logsigmoid(heat.float()), functional.logsigmoid(-heat.float())
    yes = log_yes.exp()
    cell_losses = target * (1 - yes) ** 2 * log_yes + (1 - target) * (1 - 0.9 * near_target) * yes**2 * log_no
    return -cell_losses.sum() / target.sum().clamp(min=1)


def train_world_encoder(
    train: SceneExamples, held_out: SceneExamples, recipe: WorldEncoderRecipe, folder: Path, *, device: str = "cpu"
) -> Outcome:
    """Trains a world encoder, and writes its checkpoint; an interrupted run is resumed.

    Args:
        train, held_out: pictures to train on and to measure on.
        recipe: of the training.
        folder: of the checkpoint and the run.
        device: of torch.

    Raises:
        InputError: no pictures to train on or to measure on.
    """
    if not len(train) or not len(held_out):
        raise InputError(f"{len(train)} pictures to train on and {len(held_out)} held out; expected some of each")
    learner = WorldLearner(train, held_out, recipe, device)
    outcome = Run(learner, recipe, folder, description="world encoder", device=device).train()
    learner.module.load_state_dict({name: torch.from_numpy(each) for name, each in outcome.weights.items()})
    learner.whiten()
    Checkpoint(
        kind=KIND,
        parameters={"shape": asdict(learner.shape)},
        weights=weights_of(learner.model.network),
        vocabulary=LABELS,
        data=(TrainingData(f"world(size={len(train)},seed={recipe.seed})", train.digest, len(train)),),
        training=asdict(recipe),
        selection="the epoch with the highest mean of all scores on held-out pictures (split dev)",
        scores=dict(outcome.scores),
    ).save(folder)
    return outcome
