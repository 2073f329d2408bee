"""LCEval's network in torch, with its loss and evaluation.

The loss is Eq. 7.6: the cross-entropy of "human" against "machine", plus an L2 penalty on the weights, which is applied
as weight decay in Adam's gradient. Where captions have perturbed forms, a ranking loss is added: the mean of
log(1 + exp(z' − z)), z the logit of a caption and z' that of a form of it. Initial weights are Glorot-uniform, biases
are 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from capmeter_research.common.loop import Learner, set_seed
from capmeter_research.common.model_selection import kendall_tau
from capmeter_research.papers.lceval.feed_forward import DenseLayer, FeedForwardNetwork
from capmeter_research.papers.lceval.training.recipe import LcEvalRecipe
from capmeter_research.papers.lceval.training.training_set import SelectionJudgments, TrainingSet

Batch = tuple[Tensor, Tensor, Tensor]
"""Features (batch, features), labels (batch), 1 for human captions, and of captions with their perturbed forms the
features (captions, forms, features)."""


def human_logit(module: nn.Module, inputs: Tensor) -> Tensor:
    """z_1 − z_0 of features (..., features)."""
    logits: Tensor = module(inputs)
    return logits[..., 1] - logits[..., 0]


def ranking_loss(module: nn.Module, perturbed: Tensor) -> Tensor:
    """How far captions are from scoring above their perturbed forms; 0 without any.

    Args:
        module: the network.
        perturbed: (captions, forms, features), the first form is the caption itself.
    """
    if not len(perturbed):
        return perturbed.new_zeros(())
    logits = human_logit(module, perturbed)
    return functional.softplus(logits[:, 1:] - logits[:, :1]).mean()


def judgment_tau(judgments: SelectionJudgments, network: FeedForwardNetwork) -> float:
    """Kendall's τ between the network's scores and the judgments; 0 if all scores are equal."""
    return kendall_tau(judgments.statistic, network.logit(judgments.features)[judgments.rows], judgments.human)


class LcEvalLearner(Learner[Batch]):
    """LCEval in training: evaluated on held-out examples, selected by the judgments, or by accuracy without any."""

    def __init__(self, examples: TrainingSet, recipe: LcEvalRecipe) -> None:
        self.recipe, self.judgments = recipe, examples.judgments
        self.select = "accuracy" if examples.judgments is None else "tau"
        held_out = examples.held_out
        self.inputs = torch.from_numpy(examples.matrix[~held_out].astype(np.float32))
        self.labels = torch.from_numpy(examples.human[~held_out].astype(np.int64))
        self.perturbed = torch.from_numpy(examples.perturbed.astype(np.float32))
        self.held_out = examples.matrix[held_out], examples.human[held_out]
        set_seed(recipe.seed)
        layer_widths = [examples.matrix.shape[1], *recipe.hidden, 2]
        layers: list[nn.Module] = []
        for layer_index, (inputs, outputs) in enumerate(pairwise(layer_widths)):
            layers += [nn.ReLU()] if layer_index else []
            linear_layer = nn.Linear(inputs, outputs)
            nn.init.xavier_uniform_(linear_layer.weight)
            nn.init.zeros_(linear_layer.bias)
            layers.append(linear_layer)
        self.module = nn.Sequential(*layers)

    def optimizer(self, lr: float) -> torch.optim.Optimizer:
        """Adam, with the L2 penalty on weights."""
        weights = [parameter for parameter in self.module.parameters() if parameter.ndim > 1]
        biases = [parameter for parameter in self.module.parameters() if parameter.ndim == 1]
        parameter_groups: list[dict[str, Any]] = [
            {"params": weights, "weight_decay": self.recipe.weight_decay},
            {"params": biases},
        ]
        return torch.optim.Adam(parameter_groups, lr=lr, fused=True)

    def batches(self, epoch: int, rng: np.random.Generator) -> Sequence[Batch]:
        """All examples in a random order."""
        example_order = torch.from_numpy(rng.permutation(len(self.inputs)))
        inputs, labels = self.inputs[example_order].to(self.device), self.labels[example_order].to(self.device)
        batch_size = self.recipe.batch
        batches = zip(torch.split(inputs, batch_size), torch.split(labels, batch_size), strict=True)
        perturbed_rows = [
            rng.permutation(len(self.perturbed))[:batch_size] for _ in range(0, len(example_order), batch_size)
        ]
        return [
            (*batch, self.perturbed[batch_rows].to(self.device))
            for batch, batch_rows in zip(batches, perturbed_rows, strict=True)
        ]

    def losses(self, batch: Batch, rng: np.random.Generator) -> Mapping[str, Tensor]:
        """The cross-entropy, and the ranking loss with its weight."""
        inputs, labels, perturbed = batch
        losses = {"cross-entropy": functional.cross_entropy(self.module(inputs), labels)}
        if len(perturbed):
            losses["ranking"] = self.recipe.ranking_weight * ranking_loss(self.module, perturbed)
        return losses

    def evaluate(self) -> Mapping[str, float]:
        """Accuracy on held-out examples, and τ with the judgments."""
        network = self.to_network(self.module.state_dict())
        features, human = self.held_out
        scores = {"accuracy": float(((network.logit(features) > 0) == human).mean()) if len(human) else 0.0}
        if self.judgments is not None:
            scores["tau"] = judgment_tau(self.judgments, network)
        return scores

    def to_network(self, weights: Mapping[str, Tensor] | Mapping[str, npt.NDArray[np.float32]]) -> FeedForwardNetwork:
        """The network with these weights, in numpy."""
        arrays = {name: np.asarray(values, np.float64) for name, values in weights.items()}
        layer_names = [name.removesuffix(".weight") for name in arrays if name.endswith(".weight")]
        return FeedForwardNetwork(
            tuple(DenseLayer(arrays[f"{name}.weight"].T, arrays[f"{name}.bias"]) for name in layer_names)
        )
