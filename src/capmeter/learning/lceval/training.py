"""LCEval's network in torch, and what a run of training needs: batches, cross-entropy, accuracy and Kendall's τ.

The loss is Eq. 7.6: the cross-entropy of "human" against "machine", plus an L2 penalty on the weights, which is applied
as a decay in Adam's gradient. Initial weights are Glorot-uniform, biases 0.
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

from capmeter.learning.lceval.recipe import LcEvalRecipe
from capmeter.learning.lceval.training_set import Judged, TrainingSet
from capmeter.learning.loop import Learner, seeded
from capmeter.learning.selecting import tau
from capmeter.metrics.lceval.feed_forward import Layer, Network

Batch = tuple[Tensor, Tensor]


def agreement(judged: Judged, network: Network) -> float:
    """Kendall's τ of the network's scores with the judgments; 0 where all scores are equal."""
    return tau(judged.statistic, network.logit(judged.features)[judged.rows], judged.human)


class LcEvalLearner(Learner[Batch]):
    """Training examples and how they are learned.

    Those held out are measured; the judgments select the epoch, or accuracy does where there are none.
    """

    def __init__(self, known: TrainingSet, recipe: LcEvalRecipe) -> None:
        self.recipe, self.judged = recipe, known.judged
        self.select = "tau" if known.judged is not None else "accuracy"
        learned, kept = ~known.held_out, known.held_out
        self.inputs = torch.from_numpy(known.matrix[learned].astype(np.float32))
        self.labels = torch.from_numpy(known.human[learned].astype(np.int64))
        self.kept = known.matrix[kept], known.human[kept]
        seeded(recipe.seed)
        widths = [known.matrix.shape[1], *recipe.hidden, 2]
        layers: list[nn.Module] = []
        for k, (inputs, outputs) in enumerate(pairwise(widths)):
            layers += [nn.ReLU()] if k else []
            linear = nn.Linear(inputs, outputs)
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)
            layers.append(linear)
        self.module = nn.Sequential(*layers)

    def optimizer(self, rate: float) -> torch.optim.Optimizer:
        """Adam, with the L2 penalty on weights."""
        weights = [values for values in self.module.parameters() if values.ndim > 1]
        biases = [values for values in self.module.parameters() if values.ndim == 1]
        groups: list[dict[str, Any]] = [
            {"params": weights, "weight_decay": self.recipe.decay_weights},
            {"params": biases},
        ]
        return torch.optim.Adam(groups, lr=rate, fused=True)

    def batches(self, epoch: int, rng: np.random.Generator) -> Sequence[Batch]:
        """All examples in a random order."""
        order = torch.from_numpy(rng.permutation(len(self.inputs)))
        inputs, labels = self.inputs[order].to(self.device), self.labels[order].to(self.device)
        size = self.recipe.batch
        return list(zip(torch.split(inputs, size), torch.split(labels, size), strict=True))

    def losses(self, batch: Batch, rng: np.random.Generator) -> Mapping[str, Tensor]:
        """The cross-entropy."""
        inputs, labels = batch
        return {"cross-entropy": functional.cross_entropy(self.module(inputs), labels)}

    def measured(self) -> Mapping[str, float]:
        """Accuracy on held-out examples and τ with the selecting judgments."""
        network = self.network(self.module.state_dict())
        features, human = self.kept
        scores = {"accuracy": float(((network.logit(features) > 0) == human).mean()) if len(human) else 0.0}
        if self.judged is not None:
            scores["tau"] = agreement(self.judged, network)
        return scores

    def network(self, weights: Mapping[str, Tensor] | Mapping[str, npt.NDArray[np.float32]]) -> Network:
        """The network with these weights, in numpy."""
        arrays = {name: np.asarray(values, np.float64) for name, values in weights.items()}
        names = [name.removesuffix(".weight") for name in arrays if name.endswith(".weight")]
        return Network(tuple(Layer(arrays[f"{name}.weight"].T, arrays[f"{name}.bias"]) for name in names))
