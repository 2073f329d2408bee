"""Distils an ensemble into one network, to reduce seed variance.

Networks with hidden layers that start from different weights end with different ones, and differ most on captions
unlike the training captions (of other systems or collections). So L networks are fitted to Eq. 7.6 on the whole
training set, from different Glorot-uniform weights (L-BFGS converges in seconds where Adam takes minutes), and one
network of the same size is fitted to the mean of their logits by least squares on the same captions, perturbed ones
too (Bucilă et al. 2006).

C. Bucilă, R. Caruana, A. Niculescu-Mizil. Model Compression. KDD 2006.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from capmeter.core.progress import task
from capmeter.evaluation.base import Floats
from capmeter_research.papers.lceval.training.recipe import LcEvalRecipe
from capmeter_research.papers.lceval.training.training import LcEvalLearner, human_logit, ranking_loss
from capmeter_research.papers.lceval.training.training_set import TrainingSet

_TEACHER_ITERATIONS, _STUDENT_ITERATIONS = 200, 600


def distil_seed_ensemble(examples: TrainingSet, recipe: LcEvalRecipe, description: str) -> LcEvalLearner:
    """A learner whose network was fitted to the mean logit of `recipe.restarts` networks.

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
