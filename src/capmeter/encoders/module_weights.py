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
        shapes = {name: tuple(each.shape) for name, each in build().state_dict().items()}
    check_shapes(shapes, weights)
    module = build()
    module.load_state_dict({name: torch.from_numpy(np.asarray(each, np.float32)) for name, each in weights.items()})
    return module.eval()


def check_shapes(shapes: Mapping[str, tuple[int, ...]], weights: Mapping[str, Any]) -> None:
    """Checks that there are weights of these names and shapes, and no others.

    Raises:
        ValueError: names the first that is missing, unknown or of another shape.
    """
    for name in [*shapes, *weights]:
        expected = list(shapes[name]) if name in shapes else "none"
        found = list(weights[name].shape) if name in weights else "none"
        if expected != found:
            raise ValueError(f"weight {name}: expected the shape {expected}, but got {found}")


def check_sizes(sizes: Mapping[str, Any], weights: Mapping[str, Any]) -> None:
    """Checks that sizes are whole numbers, not more than there are weights; of layers, not more than arrays.

    Raises:
        ValueError: names the size.
    """
    numbers = sum(array.size for array in weights.values())
    for name, size in sizes.items():
        least, most = (0, len(weights)) if name.endswith("layers") else (1, numbers)
        if type(size) is not int or not least <= size <= most:
            raise ValueError(f"{name}: expected a whole number from {least} to {most}, but got {size!r}")
