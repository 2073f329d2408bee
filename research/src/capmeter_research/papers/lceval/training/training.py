"""LCEval's network in torch, with its loss and evaluation.

The loss is Eq. 7.6: the cross-entropy of "human" against "machine", plus an L2 penalty on the weights, which is applied
as weight decay in Adam's gradient. Where captions have perturbed forms, a ranking loss is added: the mean of
log(1 + exp(z' − z)), z the logit of a caption and z' that of a form of it. Initial weights are Glorot-uniform, biases
are 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from capmeter.core.errors import InputError
from capmeter.core.progress import task
from capmeter.evaluation.base import Floats
from capmeter_research.common.loop import Learner, Outcome, Run, set_seed
from capmeter_research.common.model_selection import kendall_tau
from capmeter_research.common.recipe import Recipe
from capmeter_research.papers.lceval.checkpoint import build_checkpoint
from capmeter_research.papers.lceval.feed_forward import DenseLayer, FeedForwardNetwork
from capmeter_research.papers.lceval.training.training_set import SelectionJudgments, TrainingSet


@dataclass(frozen=True)
class LcEvalRecipe(Recipe):
    """The settings of a run."""

    epochs: int = 800  # maximum number of epochs; `patience` may end a run earlier
    lr: float = 5e-4
    patience: int = 40
    hidden: tuple[int, ...] = (12,)  # nodes of each hidden layer: none, one or two layers
    batch: int = 75  # examples per batch
    weight_decay: float = 1e-4  # β of the L2 penalty, β/2 Σ w² over weights without biases (the released code's value)
    # 1: the paper's training, by Adam; more: the network is distilled from an ensemble of this many random restarts
    # (`distil_seed_ensemble`), and epochs, lr, batch and patience are not used
    restarts: int = 1
    ranking_weight: float = 0.5  # of the ranking loss, where captions are compared with their perturbed forms


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


_TEACHER_ITERATIONS, _STUDENT_ITERATIONS = 200, 600


def distil_seed_ensemble(examples: TrainingSet, recipe: LcEvalRecipe, description: str) -> LcEvalLearner:
    """Distils an ensemble of `recipe.restarts` networks into one, to reduce seed variance.

    Networks with hidden layers that start from different weights end with different ones, and differ most on captions
    unlike the training captions (of other systems or collections). So L networks are fitted to Eq. 7.6 on the whole
    training set, from different Glorot-uniform weights (L-BFGS converges in seconds where Adam takes minutes), and one
    network of the same size is fitted to the mean of their logits by least squares on the same captions, perturbed ones
    too (C. Bucilă, R. Caruana, A. Niculescu-Mizil. Model Compression. KDD 2006).

    Args:
        examples: to train on.
        recipe: with the number of restarts.
        description: of the progress bar.
    """
    learners = []
    with task(description, total=recipe.restarts) as advance:
        for restart_index in range(recipe.restarts):
            learner = LcEvalLearner(examples, replace(recipe, seed=recipe.seed * recipe.restarts + restart_index))
            _minimise(learner.module.double(), _penalised_entropy(learner), _TEACHER_ITERATIONS)
            learners.append(learner)
            advance(1)
    inputs = torch.cat([learners[0].inputs, learners[0].perturbed.flatten(0, 1)]).double()
    with torch.no_grad():
        logits = torch.stack([human_logit(learner.module, inputs) for learner in learners])
        mean_logits = logits.mean(dim=0)
        nearest_index = int(((logits - mean_logits) ** 2).mean(dim=1).argmin())
    student = learners[nearest_index]
    _minimise(
        student.module,
        lambda: functional.mse_loss(human_logit(student.module, inputs), mean_logits),
        _STUDENT_ITERATIONS,
    )
    return student


def _minimise(module: nn.Module, loss: Callable[[], Tensor], iterations: int) -> None:
    """Minimises a full-batch loss of the module's parameters by L-BFGS."""
    from scipy.optimize import minimize

    parameters = list(module.parameters())

    def value_and_gradient(values: Floats) -> Any:
        vector_to_parameters(torch.from_numpy(values), parameters)
        loss_value = loss()
        gradients = torch.autograd.grad(loss_value, parameters)
        return float(loss_value.detach()), torch.cat([gradient.reshape(-1) for gradient in gradients]).numpy()

    start_values: Any = parameters_to_vector(parameters).detach().numpy()
    optimizer_options: Any = {"maxiter": iterations, "ftol": 1e-12, "gtol": 1e-8}
    optimum = minimize(value_and_gradient, start_values, jac=True, method="L-BFGS-B", options=optimizer_options).x
    vector_to_parameters(torch.from_numpy(optimum), parameters)


def _penalised_entropy(learner: LcEvalLearner) -> Callable[[], Tensor]:
    """Eq. 7.6: cross-entropy and the L2 penalty on weights; and the ranking loss."""
    inputs, labels, perturbed = learner.inputs.double(), learner.labels, learner.perturbed.double()
    weights = [weight_matrix for weight_matrix in learner.module.parameters() if weight_matrix.ndim > 1]
    half_decay = learner.recipe.weight_decay / 2

    def loss() -> Tensor:
        penalty = half_decay * torch.stack([(weight_matrix**2).sum() for weight_matrix in weights]).sum()
        ranking = learner.recipe.ranking_weight * ranking_loss(learner.module, perturbed)
        return functional.cross_entropy(learner.module(inputs), labels) + ranking + penalty

    return loss


def train_lceval(
    examples: TrainingSet, recipe: LcEvalRecipe, folder: Path, *, threads: int = 1, description: str = "training lceval"
) -> Outcome:
    """Trains a network on the examples that are not held out, and writes its checkpoint.

    With several restarts there are no epochs: the outcome has epoch 0 and no history.

    Args:
        examples: the training set.
        recipe: settings.
        folder: the output folder; an interrupted run there is resumed.
        threads: number of threads.
        description: for the progress bar.

    Raises:
        InputError: there are no human or no machine captions to train on.
    """
    torch.set_num_threads(threads)
    is_human = examples.human[~examples.held_out]
    counts = int(is_human.sum()), int((~is_human).sum())
    if not all(counts):
        raise InputError(f"{counts[0]} human and {counts[1]} machine captions to train on; expected some of each")
    if recipe.restarts > 1:
        learner = distil_seed_ensemble(examples, recipe, description)
        weights = {name: values.numpy() for name, values in learner.module.state_dict().items()}
        outcome = Outcome(weights, 0, learner.evaluate(), ())
    else:
        learner = LcEvalLearner(examples, recipe)
        outcome = Run(learner, recipe, folder, description=description).train()
    weights, features = learner.to_network(outcome.weights).to_weights(), examples.features
    build_checkpoint(
        {name: values.astype(np.float32) for name, values in weights.items()},
        features.names,
        pool=features.pool,
        vectors=features.vectors,
        baseline=examples.mean_features,
        data=examples.data,
        training={
            **asdict(recipe),
            "hidden": list(recipe.hidden),
            "epoch": outcome.epoch,
            "parser": features.parser,
            "human_captions": counts[0],
            "machine_captions": counts[1],
            "perturbed": len(examples.perturbed),
            "held_out": int(examples.held_out.sum()),
            "systems": sorted(set(examples.systems[~examples.human].tolist())),
            "threads": threads,
        },
        selection=_describe_selection(examples, recipe),
        scores={score_name: round(score, 6) for score_name, score in outcome.scores.items()},
    ).save(folder)
    return outcome


def _describe_selection(examples: TrainingSet, recipe: LcEvalRecipe) -> str:
    judgments = examples.judgments
    score_name = "accuracy on held-out photos" if judgments is None else f"Kendall's τ on {judgments.name}"
    if recipe.restarts > 1:
        return f"distilled from {recipe.restarts} restarts, fitted to convergence; evaluated by {score_name}"
    return f"the epoch with the highest {score_name}"
