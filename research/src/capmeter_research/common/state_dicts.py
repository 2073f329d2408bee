"""State dicts from files, read without executing anything."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from capmeter.core.arrays import ZIP_ERRORS
from capmeter.core.errors import AssetError

if TYPE_CHECKING:
    from torch import Tensor


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a state dict (.pt, .pth, .bin, .safetensors, .npz), by name.

    Raises:
        AssetError: no such file; damaged; or a pickle that holds more than tensors.
    """
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not path.is_file():  # a pipe would be waited for
        raise AssetError(f"{path}: there is no such file; expected a state dict (.pt, .safetensors, .npz)")
    try:
        if path.suffix == ".safetensors":
            state_dict: object = load_file(str(path))
        elif path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                state_dict = {weight_name: torch.from_numpy(arrays[weight_name]) for weight_name in arrays.files}
        else:
            state_dict = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:  # torch's own message advises running whatever the file contains
        raise AssetError(
            f"{path}: a damaged pickle, or one that contains more than tensors, which is never loaded; expected a "
            "state dict, or safetensors"
        ) from error
    except (*ZIP_ERRORS, SafetensorError) as error:
        raise AssetError(f"{path}: cannot read it as a state dict ({str(error)[:200]}); fetch it again") from error
    if not isinstance(state_dict, Mapping) or not all(isinstance(each, torch.Tensor) for each in state_dict.values()):
        raise AssetError(f"{path}: holds {type(state_dict).__name__}, expected a state dict (tensors by name)")
    return {str(weight_name): tensor for weight_name, tensor in state_dict.items()}


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
