"""Training of a regression head: squared error against human scores, the best reference of each caption counts.

L = mean over captions of (max_r σ(MLP(x_r) + w · y_r) - h)²             h: the mean human score, scaled to 0 to 1
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from capmeter.stats.kendall import TauC
from capmeter_research.common.loop import Learner, Outcome, set_seed
from capmeter_research.papers.infometic.head import RegressionHead
from capmeter_research.papers.infometic.training.examples import RegressionExamples
from capmeter_research.papers.infometic.training.recipe import RegressorRecipe

_AT_ONCE = 256  # held-out captions


class HeadModule(nn.Module):
    """A perceptron, and the weights of the cosines beside it; at first only these speak."""

    def __init__(self, inputs: int, cosines: int, recipe: RegressorRecipe) -> None:
        super().__init__()
        output_layer = nn.Linear(recipe.hidden, 1)
        nn.init.zeros_(output_layer.weight)
        input_layer = nn.Linear(inputs, recipe.hidden)
        self.perceptron = nn.Sequential(
            nn.Dropout(recipe.dropout), input_layer, nn.Tanh(), nn.Dropout(recipe.dropout), output_layer
        )
        self.cosines = nn.Parameter(torch.full((cosines,), 0.5))

    def forward(self, values: Tensor) -> Tensor:
        """The logits [n] of standardised inputs [n, k]."""
        logits: Tensor = self.perceptron(values)[:, 0] + values[:, : len(self.cosines)] @ self.cosines
        return logits


class RegressorLearner(Learner[npt.NDArray[np.int64]]):
    """The learner of the shared loop; a batch is the numbers of its captions."""

    select = "tau-c less error"  # of epochs that rank alike, the one with the smaller error

    def __init__(self, examples: RegressionExamples, recipe: RegressorRecipe, device: str) -> None:
        set_seed(recipe.seed)
        self.examples, self.recipe = examples, recipe
        trained_values = examples.values[np.isin(examples.rows, examples.rated.trained)]
        self.mean = trained_values.mean(axis=0).astype(np.float32)
        self.deviation = np.maximum(trained_values.std(axis=0), 1e-6).astype(np.float32)
        self._values = torch.from_numpy(((examples.values - self.mean) / self.deviation).astype(np.float32)).to(device)
        self._first = torch.from_numpy(examples.starts).to(device)
        self._human = torch.from_numpy(examples.rated.human.astype(np.float32)).to(device)
        self.head_module = HeadModule(examples.values.shape[1], examples.cosines, recipe)
        self.module: nn.Module = self.head_module

    def optimizer(self, lr: float) -> torch.optim.Optimizer:
        """AdamW."""
        return torch.optim.AdamW(self.module.parameters(), lr=lr, weight_decay=self.recipe.weights)

    def batches(self, epoch: int, rng: np.random.Generator) -> Sequence[npt.NDArray[np.int64]]:
        """The captions in random order."""
        caption_order = rng.permutation(self.examples.rated.trained)
        return [
            caption_order[start : start + self.recipe.batch]
            for start in range(0, len(caption_order), self.recipe.batch)
        ]

    def losses(self, batch: npt.NDArray[np.int64], rng: np.random.Generator) -> Mapping[str, Tensor]:
        """The squared error."""
        rows = torch.from_numpy(batch).to(self._human.device)
        return {"error": (self._scores(rows) - self._human[rows]).square().mean()}

    def evaluate(self) -> Mapping[str, float]:
        """On held-out images: Kendall's tau-c with the human scores, and the mean squared error."""
        held_out_rows = torch.from_numpy(self.examples.rated.held_out).to(self._human.device)
        scores = (
            torch.cat([self._scores(part) for part in torch.split(held_out_rows, _AT_ONCE)])
            .cpu()
            .numpy()
            .astype(np.float64)
        )
        human_scores = self.examples.rated.human[self.examples.rated.held_out]
        tau, error = float(TauC(scores, human_scores)()), float(((scores - human_scores) ** 2).mean())
        return {"tau-c": tau, "error": error, "tau-c less error": tau - error}

    def _scores(self, captions: Tensor) -> Tensor:
        """The highest score over the references of these captions."""
        input_starts, input_ends = self._first[captions], self._first[captions + 1]
        input_counts = input_ends - input_starts
        owner_rows = torch.repeat_interleave(torch.arange(len(captions), device=captions.device), input_counts)
        input_offsets = (
            torch.arange(len(owner_rows), device=captions.device) - (input_counts.cumsum(0) - input_counts)[owner_rows]
        )
        scores = torch.sigmoid(self.head_module(self._standardised(input_starts[owner_rows] + input_offsets)).float())
        best_scores = torch.full((len(captions),), -1.0, device=captions.device)
        return best_scores.scatter_reduce(0, owner_rows, scores, "amax", include_self=False)

    def _standardised(self, rows: Tensor) -> Tensor:
        """These rows of inputs as the head reads them."""
        return self._values[rows]

    def weights(self, outcome: Outcome) -> Mapping[str, npt.NDArray[np.float32]]:
        """The arrays of the head with the selected weights."""
        return self.head(outcome).to_weights()

    def head(self, outcome: Outcome) -> RegressionHead:
        """The head with the selected weights."""
        weights = outcome.weights
        layers = tuple((weights[f"perceptron.{k}.weight"].T.copy(), weights[f"perceptron.{k}.bias"]) for k in (1, 4))
        return RegressionHead(layers, self.mean, self.deviation, weights["cosines"])
