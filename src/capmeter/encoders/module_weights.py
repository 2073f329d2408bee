"""Networks with the weights of a checkpoint, whose sizes are compared with the weights before they take memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import nn

Module = TypeVar("Module", bound="nn.Module")


def load_module(build: Callable[[], Module], weights: Mapping[str, NDArray[Any]]) -> Module:
    """The network that `build` makes, with these weights, in evaluation mode.

    Args:
        build: makes the network; called twice, first on a device without memory.
        weights: all of the network's, by name.

    Raises:
        ValueError: a weight is missing, unknown or of another shape.
    """
    import torch

    with torch.device("meta"):
        weight_shapes = {weight_name: tuple(weight.shape) for weight_name, weight in build().state_dict().items()}
    check_shapes(weight_shapes, weights)
    module = build()
    module.load_state_dict(
        {weight_name: torch.from_numpy(np.asarray(weight, np.float32)) for weight_name, weight in weights.items()}
    )
    return module.eval()


def check_shapes(shapes: Mapping[str, tuple[int, ...]], weights: Mapping[str, Any]) -> None:
    """Checks that there are weights of these names and shapes, and no others.

    Raises:
        ValueError: names the first that is missing, unknown or of another shape.
    """
    for weight_name in [*shapes, *weights]:
        expected_shape = list(shapes[weight_name]) if weight_name in shapes else "none"
        actual_shape = list(weights[weight_name].shape) if weight_name in weights else "none"
        if expected_shape != actual_shape:
            raise ValueError(f"weight {weight_name}: expected the shape {expected_shape}, but got {actual_shape}")


def check_sizes(sizes: Mapping[str, Any], weights: Mapping[str, Any]) -> None:
    """Checks that sizes are whole numbers, not more than there are weights; of layers, not more than arrays.

    Raises:
        ValueError: names the size.
    """
    weight_count = sum(weight_array.size for weight_array in weights.values())
    for size_name, size_value in sizes.items():
        least, most = (0, len(weights)) if size_name.endswith("layers") else (1, weight_count)
        if type(size_value) is not int or not least <= size_value <= most:
            raise ValueError(f"{size_name}: expected a whole number from {least} to {most}, but got {size_value!r}")
