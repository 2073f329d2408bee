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
    for name, after in trained.items():
        before = start[name]
        if np.array_equal(before, after):
            continue
        if after.ndim != 2:
            changes[name] = after.astype(np.float16)
            continue
        change = after.astype(np.float32) - before.astype(np.float32)
        scale = (np.abs(change).max(axis=1) / _LARGEST).astype(np.float16)
        steps = np.divide(change, scale[:, None], out=np.zeros_like(change), where=scale[:, None] > 0)
        changes[name] = np.clip(np.rint(steps), -_LARGEST, _LARGEST).astype(np.int8)
        changes[name + SCALE] = scale
    return changes


def apply_changes(start: Arrays, changes: Arrays) -> dict[str, npt.NDArray[Any]]:
    """The weights after training.

    Raises:
        ValueError: a change is of no weight, or of another shape.
    """
    weights = dict(start)
    for name, change in changes.items():
        if name.endswith(SCALE):
            continue
        if name not in start or start[name].shape != change.shape:
            raise ValueError(f"a change of {name}, which has another shape or does not exist")
        scale = changes.get(name + SCALE)
        if scale is None:
            weights[name] = change
        elif scale.shape != change.shape[:1]:
            raise ValueError(f"the scale of {name} has the shape {scale.shape}")
        else:
            weights[name] = start[name].astype(np.float32) + change * scale.astype(np.float32)[:, None]
    return weights
