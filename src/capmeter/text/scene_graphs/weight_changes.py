"""Changes of a network's weights by further training, small enough to ship: whole numbers and a scale for each row.

    changed row = row + scale · integers,    integers in [-127, 127],    scale = largest absolute change / 127

Matrices are stored so, under their name and with `.scale`; vectors (biases, normalisations) are stored as they are.

>>> start = {"layer": np.zeros((1, 3), np.float16), "bias": np.zeros(2, np.float16)}
>>> trained = {"layer": np.array([[0.5, -1.0, 0.0]]), "bias": np.ones(2, np.float16)}
>>> sorted(changes := pack_changes(start, trained))
['bias', 'layer', 'layer.scale']
>>> apply_changes(start, changes)["layer"].round(2).tolist()
[[0.5, -1.0, 0.0]]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Arrays = Mapping[str, npt.NDArray[Any]]
SCALE = ".scale"
_LARGEST = 127


def pack_changes(start: Arrays, trained: Arrays) -> dict[str, npt.NDArray[Any]]:
    """The changes from `start` to `trained`, without the weights that did not change.

    Args:
        start: weights before training.
        trained: the same names and shapes.
    """
    changes: dict[str, npt.NDArray[Any]] = {}
    for weight_name, trained_weight in trained.items():
        start_weight = start[weight_name]
        if np.array_equal(start_weight, trained_weight):
            continue
        if trained_weight.ndim != 2:
            changes[weight_name] = trained_weight.astype(np.float16)
            continue
        weight_change = trained_weight.astype(np.float32) - start_weight.astype(np.float32)
        scale = (np.abs(weight_change).max(axis=1) / _LARGEST).astype(np.float16)
        steps = np.divide(weight_change, scale[:, None], out=np.zeros_like(weight_change), where=scale[:, None] > 0)
        changes[weight_name] = np.clip(np.rint(steps), -_LARGEST, _LARGEST).astype(np.int8)
        changes[weight_name + SCALE] = scale
    return changes


def apply_changes(start: Arrays, changes: Arrays) -> dict[str, npt.NDArray[Any]]:
    """The weights after training.

    Raises:
        ValueError: a change is of no weight, or of another shape.
    """
    weights = dict(start)
    for weight_name, change in changes.items():
        if weight_name.endswith(SCALE):
            continue
        if weight_name not in start or start[weight_name].shape != change.shape:
            raise ValueError(f"a change of {weight_name}, which has another shape or does not exist")
        scale = changes.get(weight_name + SCALE)
        if scale is None:
            weights[weight_name] = change
        elif scale.shape != change.shape[:1]:
            raise ValueError(f"the scale of {weight_name} has the shape {scale.shape}")
        else:
            weights[weight_name] = start[weight_name].astype(np.float32) + change * scale.astype(np.float32)[:, None]
    return weights
