"""Vision networks from local files: the last feature map of an image in its own size, or a network's pooled output.

A file of weights (`.pth`, `.pt`, `.safetensors`) is a ResNet of torchvision (resnet50, resnet101, resnet152: the depth
is inferred from the weights); a folder is any vision model of the transformers library (`config.json` and weights).
Nothing is downloaded, and pickles are read weights-only.

Convolutional networks read the image as it is: no resizing and no cropping. Others (ViT …) read what the image
processor in their folder makes of it.

He, Zhang, Ren, Sun: Deep Residual Learning for Image Recognition. CVPR 2016.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.core.assets import sha256, weight_files
from capmeter.core.errors import AssetError, InputError
from capmeter.core.settings import home_path
from capmeter.encoders.batches import Precision, device_name, to_numpy
from capmeter.encoders.preprocessing import Pixels, Preprocessing
from capmeter.encoders.text.encoder import load_complete_model
from capmeter_research.common.state_dicts import read_tensors

FeatureMap = npt.NDArray[np.float32]
MAX_PIXELS = 1 << 24
"""The largest image that a network reads in its own size: its feature maps take some gigabytes."""
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet, as the public networks expect
_ATTENTION_SETTINGS = ("num_attention_heads", "num_heads")  # of networks that are not convolutional
_SUFFIXES = (".pth", ".pt", ".safetensors")
_RESNETS = {(3, 4, 6, 3): "resnet50", (3, 4, 23, 3): "resnet101", (3, 8, 36, 3): "resnet152"}


class VisionNetwork:
    """A network in evaluation mode.

    Args:
        path: a file of weights, or a folder.
        device: a torch device, or auto.

    Attributes:
        label: its name with the hash of its weights.
        convolutional: whether it has a feature map.

    Raises:
        AssetError: the files are absent, damaged or incomplete, or hold another kind of network.
        MissingBackend: torch or transformers is not installed.
    """

    def __init__(self, path: str | Path, device: str = "auto") -> None:
        self.device = device_name(device)
        local_path = home_path(path)
        if local_path.is_dir():
            weight_paths = weight_files(local_path)
            if not weight_paths:
                raise AssetError(f"vision network {str(path)!a}: the folder has no weights; expected model.safetensors")
            self._model: Any = _load_folder(local_path, self.device)
        elif local_path.is_file() and local_path.suffix in _SUFFIXES:
            weight_paths = (local_path,)
            self._model = _load_resnet(local_path).to(self.device)
        else:
            raise AssetError(
                f"vision network {str(path)!a}: expected a folder with config.json and weights, or a file of "
                f"a ResNet's weights ({', '.join(_SUFFIXES)})"
            )
        self.label = f"{local_path.stem}@{sha256(*weight_paths)[:12]}"
        self.convolutional = not any(hasattr(self._model.config, setting_name) for setting_name in _ATTENTION_SETTINGS)
        self._preprocessing = None if self.convolutional else Preprocessing(local_path)

    def feature_map(self, pixels: Pixels) -> FeatureMap:
        """The last feature map of an image (height, width, 3): float32 (channels, height, width).

        Raises:
            InputError: the network is not convolutional, or the image is too large to be read in its own size.
        """
        import torch

        if not self.convolutional:
            raise InputError(f"{self.label} is not a convolutional network: it has no feature map, only a summary")
        height, width = pixels.shape[:2]
        if height * width > MAX_PIXELS:
            raise InputError(
                f"an image of {width:,} x {height:,} pixels is too large to be read as it is; make it smaller than "
                f"{MAX_PIXELS / 1e6:.0f} megapixels"
            )
        scaled = (np.asarray(pixels, np.float32) / 255 - np.array(_MEAN)) / np.array(_STD)
        inputs = torch.from_numpy(np.ascontiguousarray(scaled.transpose(2, 0, 1), np.float32))[None].to(self.device)
        with torch.inference_mode():
            return to_numpy(self._model(inputs).last_hidden_state[0])

    def pooled_output(self, pixels: Pixels) -> npt.NDArray[np.float32]:
        """The pooled output, else the first token, of a network that is not convolutional: float32 (width,)."""
        import torch

        if self._preprocessing is None:
            raise InputError(f"{self.label} is a convolutional network: it has a feature map, and no summary")
        image_inputs = torch.from_numpy(self._preprocessing(pixels))[None].to(self.device)
        with torch.inference_mode():
            model_output = self._model(image_inputs)
        pooled_features = getattr(model_output, "pooler_output", None)
        return to_numpy((model_output.last_hidden_state[:, 0] if pooled_features is None else pooled_features)[0])


@functools.lru_cache(maxsize=2)
def load_vision(path: str, device: str = "auto") -> VisionNetwork:
    """The network with these files, loaded once."""
    return VisionNetwork(path, device)


def average_map(feature_map: FeatureMap, pool: str) -> npt.NDArray[np.float32]:
    """The average of a feature map.

    Args:
        feature_map: float32 (channels, height, width).
        pool: `mean`, over all positions (LEIC's appendix A.1); or `overlapping`: over a grid of 7 x 7 means, whose
            cells overlap where 7 does not divide the map's sides, as in the released code.

    Returns:
        float32 (channels,).
    """
    if pool == "mean":
        return np.asarray(feature_map.mean((1, 2), dtype=np.float64), np.float32)
    rows, columns = (_pool_cells(side) for side in feature_map.shape[1:])
    cell_means = [feature_map[:, a:b, c:d].mean((1, 2), dtype=np.float64) for a, b in rows for c, d in columns]
    return np.asarray(np.mean(cell_means, axis=0), np.float32)


def _pool_cells(side: int) -> list[tuple[int, int]]:
    """The bounds of the seven cells of an adaptive average pool: ⌊k·side/7⌋ to ⌈(k + 1)·side/7⌉."""
    return [(k * side // 7, -(-(k + 1) * side // 7)) for k in range(7)]


def _load_folder(folder: Path, device: str) -> Any:
    import torch
    from transformers import AutoConfig, AutoModel

    try:
        model_config = AutoConfig.from_pretrained(str(folder), local_files_only=True)
        if not hasattr(model_config, "num_channels"):
            raise ValueError(f"a {model_config.model_type} model does not read images")
        return load_complete_model(AutoModel, folder, Precision(device, torch.float32), optional="pooler")
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise AssetError(f"vision network {folder}: cannot be loaded ({error}); fetch its files again") from error


def _load_resnet(path: Path) -> Any:
    """The transformers library's ResNet with torchvision's weights."""
    from transformers import ResNetConfig, ResNetModel

    weights = read_tensors(path)
    depths = tuple(len({name.split(".")[1] for name in weights if name.startswith(f"layer{k}.")}) for k in range(1, 5))
    if depths not in _RESNETS or "layer1.0.conv3.weight" not in weights:
        supported_names = ", ".join(_RESNETS.values())
        raise AssetError(f"vision network {path}: not the weights of torchvision's {supported_names}; name one of them")
    stem_width = int(weights["conv1.weight"].shape[0])
    sizes = [int(weights[f"layer{k}.0.conv3.weight"].shape[0]) for k in range(1, 5)]
    config = ResNetConfig(embedding_size=stem_width, hidden_sizes=sizes, depths=list(depths), layer_type="bottleneck")
    resnet_model = ResNetModel(config)
    try:
        resnet_model.load_state_dict({_hub_name(name): tensor for name, tensor in weights.items() if name[:3] != "fc."})
    except (RuntimeError, ValueError) as error:
        raise AssetError(f"vision network {path}: weights are missing or of another shape ({error})") from error
    return resnet_model.eval()


def _hub_name(weight_name: str) -> str:
    """The transformers library's name of a weight of torchvision's ResNet."""
    layer_kinds = {"conv": "convolution", "bn": "normalization"}
    if stem_match := re.fullmatch(r"(conv|bn)1\.(\w+)", weight_name):
        return f"embedder.embedder.{layer_kinds[stem_match[1]]}.{stem_match[2]}"
    layer_match = re.fullmatch(r"layer(\d)\.(\d+)\.(?:(conv|bn)(\d)|downsample\.(\d))\.(\w+)", weight_name)
    if layer_match is None:
        raise ValueError(f"unexpected weight {weight_name!r}")
    stage, layer, layer_kind, layer_number, shortcut, tensor = layer_match.groups()
    layer_prefix = f"encoder.stages.{int(stage) - 1}.layers.{layer}"
    if shortcut:
        return f"{layer_prefix}.shortcut.{'convolution' if shortcut == '0' else 'normalization'}.{tensor}"
    return f"{layer_prefix}.layer.{int(layer_number) - 1}.{layer_kinds[layer_kind]}.{tensor}"
