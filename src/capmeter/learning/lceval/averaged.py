"""One network for many starts: less of a score is luck.

A network with hidden layers ends somewhere else from every start, and captions unlike those of training (other
systems', other collections') are where these ends differ. So L networks are fitted from different Glorot-uniform starts
to Eq. 7.6 on the whole training set (L-BFGS, which converges in seconds where Adam takes minutes), and one network of
the same size is fitted to the mean of their logits by least squares on the same captions (Bucilă et al. 2006).

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

from capmeter.learning.lceval.recipe import LcEvalRecipe
from capmeter.learning.lceval.training import LcEvalLearner
from capmeter.learning.lceval.training_set import TrainingSet
from capmeter.metrics.base import Floats
from capmeter.progress import task

ITERATIONS = 200
_STUDENT = 600


def averaged(known: TrainingSet, recipe: LcEvalRecipe, description: str) -> LcEvalLearner:
    """A learner whose network has learned the mean logit of `recipe.starts` networks."""
    learners = []
    with task(description, total=recipe.starts) as advance:
        for k in range(recipe.starts):
            learner = LcEvalLearner(known, replace(recipe, seed=recipe.seed * recipe.starts + k))
            fit(learner.module.double(), _entropy(learner), ITERATIONS)
            learners.append(learner)
            advance(1)
    inputs = learners[0].inputs.double()
    with torch.no_grad():
        logits = torch.stack([_logit(each.module, inputs) for each in learners])
        mean = logits.mean(dim=0)
        nearest = int(((logits - mean) ** 2).mean(dim=1).argmin())
    student = learners[nearest]
    fit(student.module, lambda: functional.mse_loss(_logit(student.module, inputs), mean), _STUDENT)
    return student


def fit(module: nn.Module, loss: Callable[[], Tensor], iterations: int) -> None:
    """Minimises a loss of all examples at once."""
    from scipy.optimize import minimize

    parameters = list(module.parameters())

    def value_and_gradient(values: Floats) -> Any:
        vector_to_parameters(torch.from_numpy(values), parameters)
        found = loss()
        slopes = torch.autograd.grad(found, parameters)
        return float(found.detach()), torch.cat([slope.reshape(-1) for slope in slopes]).numpy()

    start: Any = parameters_to_vector(parameters).detach().numpy()
    options: Any = {"maxiter": iterations, "ftol": 1e-12, "gtol": 1e-8}
    best = minimize(value_and_gradient, start, jac=True, method="L-BFGS-B", options=options).x
    vector_to_parameters(torch.from_numpy(best), parameters)


def _entropy(learner: LcEvalLearner) -> Callable[[], Tensor]:
    """Eq. 7.6: cross-entropy and the L2 penalty on weights."""
    inputs, labels = learner.inputs.double(), learner.labels
    weights = [values for values in learner.module.parameters() if values.ndim > 1]
    half = learner.recipe.decay_weights / 2

    def loss() -> Tensor:
        penalty = half * torch.stack([(values**2).sum() for values in weights]).sum()
        return functional.cross_entropy(learner.module(inputs), labels) + penalty

    return loss


def _logit(module: nn.Module, inputs: Tensor) -> Tensor:
    both: Tensor = module(inputs)
    return both[:, 1] - both[:, 0]
