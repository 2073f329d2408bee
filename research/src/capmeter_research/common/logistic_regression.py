"""Weighted logistic regression on a few quantities."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_NEWTON_STEPS = 50


def fit_logistic_regression(
    inputs: NDArray[np.float64], labels: NDArray[Any], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The parameters (k,) that maximise the likelihood of the labels, by Newton's method.

    Args:
        inputs: quantities (n, k), with a column of ones if there is to be an offset.
        labels: true or false (n,), or 1 and 0.
        weights: of the items (n,).

    >>> inputs = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 1.0], [1.0, 1.0]])
    >>> fit_logistic_regression(inputs, np.array([1, 0, 1, 0]), np.array([1.0, 3.0, 3.0, 1.0])).round(4).tolist()
    [-1.0986, 2.1972]
    """
    parameters = np.zeros(inputs.shape[1])
    for _ in range(_NEWTON_STEPS):
        expected = 0.5 * (1 + np.tanh(0.5 * (inputs @ parameters)))
        gradient = inputs.T @ (weights * (expected - labels))
        curvature = (inputs * (weights * expected * (1 - expected))[:, None]).T @ inputs
        parameters -= np.linalg.solve(curvature + 1e-9 * np.eye(len(parameters)), gradient)
    return parameters
