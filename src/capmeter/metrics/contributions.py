"""How much each input of a learned score contributed to its logit, for every learned metric.

    logit(x) = logit(base) + Σ contributions                                                            exactly

A linear logit gives them directly: w_i (x_i − base_i). Otherwise inputs are occluded, that is set to the base's value:
the contribution of an input is how much the logit changes when it is set, averaged over orders in which the inputs are
set one after another (with all orders it is Shapley's value). Up to 8 inputs all subsets are taken; beyond that, 64
seeded orders and their reverses. Each order's changes add up to the difference to the base, so the averages do too.

>>> double = lambda x: 2 * x[..., 0] * x[..., 1]
>>> by_occlusion(double, np.array([1.0, 3.0]), np.zeros(2)).tolist()
[3.0, 3.0]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Logit = Callable[[Floats], Floats]

_ALL_SUBSETS = 8
_ORDERS = 64
_SEED = 0


@dataclass(frozen=True, slots=True)
class Contributions:
    """What each input contributed to the logit of one caption.

    base: what the inputs are compared with, in words; start: its logit; logit: the caption's. inputs: (name, value,
    the base's value, contribution); start plus the contributions is the logit.
    """

    base: str
    start: float
    logit: float
    inputs: tuple[tuple[str, float, float, float], ...]

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        keys = ("input", "value", "base_value", "contribution")
        inputs = [dict(zip(keys, each, strict=True)) for each in self.inputs]
        return {"base": self.base, "base_logit": self.start, "logit": self.logit, "inputs": inputs}


def contributions(
    logit: Logit, names: Sequence[str], values: Floats, base: Floats, said: str, *, slopes: Floats | None = None
) -> Contributions:
    """The contributions of the inputs `values` [k] compared with `base` [k], which `said` describes.

    logit: from inputs [..., k] to logits [...]. slopes: the weights [k] of a linear logit.
    """
    parts = slopes * (values - base) if slopes is not None else by_occlusion(logit, values, base)
    inputs = zip(names, values.tolist(), base.tolist(), parts.tolist(), strict=True)
    return Contributions(said, float(logit(base)), float(logit(values)), tuple(inputs))


def by_occlusion(logit: Logit, values: Floats, base: Floats) -> Floats:
    """Each input's contribution, [k], by occlusion in all orders or in 128 of them."""
    count = len(values)
    return _over_subsets(logit, values, base) if count <= _ALL_SUBSETS else _over_orders(logit, values, base)


def _over_subsets(logit: Logit, values: Floats, base: Floats) -> Floats:
    count = len(values)
    given = (np.arange(1 << count)[:, None] >> np.arange(count)) & 1
    found = logit(np.where(given, values, base))
    size = given.sum(axis=1)
    weight = np.array([1 / (count * math.comb(count - 1, k)) if k < count else 0.0 for k in range(count + 1)])
    parts = np.empty(count)
    for k in range(count):
        without = np.flatnonzero(given[:, k] == 0)
        parts[k] = (weight[size[without]] * (found[without | (1 << k)] - found[without])).sum()
    return parts


def _over_orders(logit: Logit, values: Floats, base: Floats) -> Floats:
    count = len(values)
    rng = np.random.default_rng(_SEED)
    orders = [rng.permutation(count) for _ in range(_ORDERS)]
    ranks = np.argsort([*orders, *(order[::-1] for order in orders)], axis=1)
    given = ranks[:, None, :] < np.arange(count + 1)[:, None]  # [orders, steps, inputs]
    steps = np.diff(logit(np.where(given, values, base)), axis=1)
    parts: Floats = np.take_along_axis(steps, ranks, axis=1).mean(axis=0)
    return parts
