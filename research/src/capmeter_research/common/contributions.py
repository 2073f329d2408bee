"""Contributions of the inputs of a learned metric to its logit.

    logit(x) = logit(base) + Σ contributions                                                            exactly

A linear logit gives them directly: w_i (x_i − base_i). Otherwise inputs are occluded, that is set to the base's value:
the contribution of an input is the change of the logit when it is occluded, averaged over orders in which the inputs
are occluded one after another; over all orders this is the Shapley value (Shapley 1953). Up to 8 inputs, all subsets
are evaluated; beyond that, 64 seeded orders and their reverses. The changes along each order add up to the difference
from the base, and so do the averages.

>>> double = lambda x: 2 * x[..., 0] * x[..., 1]
>>> occlusion_contributions(double, np.array([1.0, 3.0]), np.zeros(2)).tolist()
[3.0, 3.0]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from capmeter.evaluation.evidence import Contributions

Floats = npt.NDArray[np.float64]
Logit = Callable[[Floats], Floats]

_MAX_INPUTS_OF_SUBSETS = 8
_SAMPLED_ORDERS = 64
_SEED = 0


def compute_contributions(
    logit: Logit, names: Sequence[str], values: Floats, base: Floats, base_name: str, *, slopes: Floats | None = None
) -> Contributions:
    """Computes the contributions of a caption's inputs.

    Args:
        logit: from inputs (..., inputs) to logits (...).
        names, values: of the inputs (inputs).
        base: the inputs that they are compared with (inputs).
        base_name: describes them.
        slopes: the weights of a linear logit (inputs).
    """
    parts = slopes * (values - base) if slopes is not None else occlusion_contributions(logit, values, base)
    inputs = zip(names, values.tolist(), base.tolist(), parts.tolist(), strict=True)
    return Contributions(base_name, float(logit(base)), float(logit(values)), tuple(inputs))


def occlusion_contributions(logit: Logit, values: Floats, base: Floats) -> Floats:
    """The contribution of each input, (inputs,), by occlusion in all orders or in 128 of them.

    Args:
        logit: from inputs, (…, inputs), to logits, (…).
        values: of the inputs, (inputs,).
        base: their values where they are occluded, (inputs,).
    """
    is_small = len(values) <= _MAX_INPUTS_OF_SUBSETS
    return _average_over_subsets(logit, values, base) if is_small else _average_over_orders(logit, values, base)


def _average_over_subsets(logit: Logit, values: Floats, base: Floats) -> Floats:
    input_count = len(values)
    is_present = (np.arange(1 << input_count)[:, None] >> np.arange(input_count)) & 1  # (subsets, inputs)
    logits = logit(np.where(is_present, values, base))
    subset_sizes = is_present.sum(axis=1)
    subset_weights = np.array(
        [1 / (input_count * math.comb(input_count - 1, k)) if k < input_count else 0.0 for k in range(input_count + 1)]
    )
    parts = np.empty(input_count)
    for k in range(input_count):
        absent_subsets = np.flatnonzero(is_present[:, k] == 0)
        parts[k] = (
            subset_weights[subset_sizes[absent_subsets]] * (logits[absent_subsets | (1 << k)] - logits[absent_subsets])
        ).sum()
    return parts


def _average_over_orders(logit: Logit, values: Floats, base: Floats) -> Floats:
    input_count = len(values)
    rng = np.random.default_rng(_SEED)
    orders = [rng.permutation(input_count) for _ in range(_SAMPLED_ORDERS)]
    ranks = np.argsort([*orders, *(order[::-1] for order in orders)], axis=1)
    is_present = ranks[:, None, :] < np.arange(input_count + 1)[:, None]  # (orders, steps, inputs)
    steps = np.diff(logit(np.where(is_present, values, base)), axis=1)
    parts: Floats = np.take_along_axis(steps, ranks, axis=1).mean(axis=0)
    return parts
