"""Vision networks by local files: the last feature map of a picture as it is, or a network's own summary of it.

A file of weights (`.pth`, `.pt`, `.safetensors`) is a ResNet of torchvision (resnet50, resnet101, resnet152: the depth
is read from the weights); a folder is any vision model of the transformers library (`config.json` and weights).
Nothing is downloaded, and pickles are read weights-only.

Convolutional networks read the picture as it is: no resizing and no cropping. Others (ViT …) read what the image
processor in their folder makes of it.

He, Zhang, Ren, Sun: Deep Residual Learning for Image Recognition. CVPR 2016.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.assets import sha256, weight_files
from capmeter.encoders.encoder import device_name
from capmeter.encoders.hub_model import complete_model
from capmeter.encoders.preprocessing import Pixels, Preprocessing
from capmeter.errors import AssetError, InputError

Maps = npt.NDArray[np.float32]
MOST_PIXELS = 1 << 24
"""The largest picture that a network reads as it is: its maps take some gigabytes."""
_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet, as the public networks expect
_HEADS = ("num_attention_heads", "num_heads")  # what attends has no feature map
_WEIGHTS = (".pth", ".pt", ".safetensors")
_DEPTHS = {(3, 4, 6, 3): 50, (3, 4, 23, 3): 101, (3, 8, 36, 3): 152}


class VisionNetwork:
    """A network in evaluation mode.

    Args:
        path: a file of weights, or a folder.
        device: a torch device, or auto.

    Raises:
        AssetError: the files are absent, damaged or incomplete, or hold another kind of network.
        MissingBackend: torch or transformers is not installed.
    """

    def __init__(self, path: str | Path, device: str = "auto") -> None:
        self.device = device_name(device)
        place = Path(path).expanduser()
        if place.is_dir():
            files = weight_files(place)
            if not files:
                raise AssetError(f"vision network {str(path)!a}: the folder has no weights; expected model.safetensors")
            self._model: Any = _from_folder(place, self.device)
        elif place.is_file() and place.suffix in _WEIGHTS:
            files = (place,)
            self._model = _resnet(place).to(self.device)
        else:
            raise AssetError(
                f"vision network {str(path)!a}: expected a folder with config.json and weights, or a file of "
                f"a ResNet's weights ({', '.join(_WEIGHTS)})"
            )
        self.label = f"{place.stem}@{sha256(*files)[:12]}"
        self.convolutional = not any(hasattr(self._model.config, name) for name in _HEADS)
        self._preprocessing = None if self.convolutional else Preprocessing(place)

    def maps(self, pixels: Pixels) -> Maps:
        """The last feature map of a picture, float32 [channels, height, width].

        Raises:
            InputError: the network is not convolutional, or the picture is too large to be read as it is.
        """
        import torch

        if not self.convolutional:
            raise InputError(f"{self.label} is not a convolutional network: it has no feature map, only a summary")
        height, width = pixels.shape[:2]
        if height * width > MOST_PIXELS:
            raise InputError(
                f"a picture of {width:,} x {height:,} pixels is too large to be read as it is; make it smaller than "
                f"{MOST_PIXELS / 1e6:.0f} megapixels"
            )
        scaled = (np.asarray(pixels, np.float32) / 255 - np.array(_MEAN)) / np.array(_DEVIATION)
        given = torch.from_numpy(np.ascontiguousarray(scaled.transpose(2, 0, 1), np.float32))[None].to(self.device)
        with torch.inference_mode():
            made = self._model(given).last_hidden_state[0]
        return np.asarray(made.float().cpu().numpy(), np.float32)

    def summary(self, pixels: Pixels) -> npt.NDArray[np.float32]:
        """What a network that is not convolutional makes of a picture: its pooled output, else its first token."""
        import torch

        if self._preprocessing is None:
            raise InputError(f"{self.label} is a convolutional network: it has a feature map, and no summary")
        given = torch.from_numpy(self._preprocessing(pixels))[None].to(self.device)
        with torch.inference_mode():
            output = self._model(given)
        pooled = getattr(output, "pooler_output", None)
        made = output.last_hidden_state[:, 0] if pooled is None else pooled
        return np.asarray(made[0].float().cpu().numpy(), np.float32)


@functools.lru_cache(maxsize=2)
def load_vision(path: str, device: str = "auto") -> VisionNetwork:
    """The network with these files, loaded once."""
    return VisionNetwork(path, device)


def pooled(maps: Maps, pool: str) -> npt.NDArray[np.float32]:
    """A feature map's average.

    Args:
        maps: float32 [channels, height, width].
        pool: `mean`, over all places (LEIC's appendix A.1); or `overlapping`: over a grid of 7 x 7 means, whose cells
            overlap where 7 does not divide the map's sides, as the released code has it.

    Returns:
        float32 [channels].
    """
    if pool == "mean":
        return np.asarray(maps.mean((1, 2), dtype=np.float64), np.float32)
    rows, columns = (_cells(side) for side in maps.shape[1:])
    cells = [maps[:, a:b, c:d].mean((1, 2), dtype=np.float64) for a, b in rows for c, d in columns]
    return np.asarray(np.mean(cells, axis=0), np.float32)


def _cells(side: int, count: int = 7) -> list[tuple[int, int]]:
    """Where the cells of an adaptive average pool begin and end: ⌊k·side/count⌋ to ⌈(k + 1)·side/count⌉."""
    return [(k * side // count, -(-(k + 1) * side // count)) for k in range(count)]


def _from_folder(folder: Path, device: str) -> Any:
    import torch
    from transformers import AutoConfig, AutoModel

    try:
        config = AutoConfig.from_pretrained(str(folder), local_files_only=True)
        if not hasattr(config, "num_channels"):
            raise ValueError(f"a {config.model_type} model reads no pictures")
        return complete_model(AutoModel, folder, device, torch.float32, unused="pooler")
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise AssetError(f"vision network {folder}: cannot be loaded ({error}); fetch its files again") from error


def _resnet(path: Path) -> Any:
    """The transformers library's ResNet with torchvision's weights."""
    from transformers import ResNetConfig, ResNetModel

    weights = _state(path)
    depths = tuple(len({name.split(".")[1] for name in weights if name.startswith(f"layer{k}.")}) for k in range(1, 5))
    if depths not in _DEPTHS or "layer1.0.conv3.weight" not in weights:
        known = ", ".join(f"resnet{depth}" for depth in _DEPTHS.values())
        raise AssetError(f"vision network {path}: not the weights of torchvision's {known}; name one of them")
    stem = int(weights["conv1.weight"].shape[0])
    sizes = [int(weights[f"layer{k}.0.conv3.weight"].shape[0]) for k in range(1, 5)]
    config = ResNetConfig(embedding_size=stem, hidden_sizes=sizes, depths=list(depths), layer_type="bottleneck")
    model = ResNetModel(config)
    try:
        model.load_state_dict({_library_name(name): each for name, each in weights.items() if name[:3] != "fc."})
    except (RuntimeError, ValueError) as error:
        raise AssetError(f"vision network {path}: weights are missing or of another shape ({error})") from error
    return model.eval()


def _state(path: Path) -> Mapping[str, Any]:
    import torch

    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged or hostile file makes readers fail in every way
        raise AssetError(f"vision network {path}: cannot be read ({error}); fetch it again") from error
    if not isinstance(found, Mapping) or not all(isinstance(each, torch.Tensor) for each in found.values()):
        raise AssetError(f"vision network {path}: holds no state dict; save model.state_dict()")
    return {str(name): each for name, each in found.items()}


def _library_name(name: str) -> str:
    """torchvision's name of a weight as the transformers library has it."""
    stem = re.fullmatch(r"(conv1|bn1)\.(\w+)", name)
    if stem:
        return f"embedder.embedder.{_part(stem[1])}.{stem[2]}"
    inner = re.fullmatch(r"layer(\d)\.(\d+)\.(?:(conv|bn)(\d)|downsample\.(\d))\.(\w+)", name)
    if inner is None:
        raise ValueError(f"unexpected weight {name!r}")
    stage, layer, part, number, shortcut, what = inner.groups()
    place = f"encoder.stages.{int(stage) - 1}.layers.{layer}"
    if shortcut:
        return f"{place}.shortcut.{'convolution' if shortcut == '0' else 'normalization'}.{what}"
    return f"{place}.layer.{int(number) - 1}.{_part(part)}.{what}"


def _part(name: str) -> str:
    return "convolution" if name.startswith("conv") else "normalization"
