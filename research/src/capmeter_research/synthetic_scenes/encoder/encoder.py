"""The world encoder, ready for use: pictures to features, and regions to features.

It was trained on drawn pictures of synthetic scenes alone, and knows nothing else: it stands in where a detector and a
picture encoder are needed for synthetic scenes.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from capmeter.core.checkpoints import Checkpoint, load_checkpoint, rebuilding
from capmeter.core.errors import InputError
from capmeter.encoders.handle import require_neural
from capmeter.encoders.text.layers import load_module

if TYPE_CHECKING:
    from torch import Tensor

    from capmeter_research.synthetic_scenes.encoder.network import WorldNetwork

KIND = "world-encoder"
Floats = npt.NDArray[np.float32]
Pixels = npt.NDArray[np.uint8]
_AT_ONCE = 64


class SceneNetwork(ABC):
    """A trained network that gives features of pictures.

    Args:
        checkpoint: of the network's kind.
        device: a torch device.

    Raises:
        AssetError: the checkpoint's weights are not those of the network.
        MissingBackend: torch is not installed.
    """

    def __init__(self, checkpoint: Checkpoint, device: str = "cpu") -> None:
        require_neural()
        self.label, self.device = checkpoint.label, device
        with rebuilding(f"a {checkpoint.kind.replace('-', ' ')}", checkpoint.label):
            self.build(checkpoint)

    @abstractmethod
    def build(self, checkpoint: Checkpoint) -> None:
        """Builds the network of a checkpoint, on the device."""

    @property
    @abstractmethod
    def width(self) -> int:
        """The width of a picture's feature."""

    @abstractmethod
    def encode(self, pixels: Tensor) -> Tensor:
        """The features [n, width] of pictures, uint8 [n, 96, 96, 3]."""

    def pictures(self, pixels: Sequence[Pixels]) -> Floats:
        """The features of pictures.

        Args:
            pixels: uint8 [height, width, 3] each; other sizes than 96 x 96 are resized.

        Returns:
            float32 [n, width].
        """
        import torch

        features = np.zeros((len(pixels), self.width), np.float32)
        with torch.inference_mode():
            for start in range(0, len(pixels), _AT_ONCE):
                batch = self._tensor(pixels[start : start + _AT_ONCE])
                features[start : start + _AT_ONCE] = self.encode(batch).float().cpu().numpy()
        return features

    def _tensor(self, pixels: Sequence[Pixels]) -> Tensor:
        import torch

        return torch.from_numpy(np.stack([resized(picture_pixels) for picture_pixels in pixels])).to(self.device)


class WorldEncoder(SceneNetwork):
    """Features of pictures and of their regions; its checkpoint is of the kind `world-encoder`."""

    def build(self, checkpoint: Checkpoint) -> None:
        """See `SceneNetwork`."""
        from capmeter_research.synthetic_scenes.encoder.network import WorldNetwork, WorldShape

        self.shape = WorldShape(**checkpoint.parameters["shape"])
        self.network = load_module(lambda: WorldNetwork(self.shape), checkpoint.weights).to(self.device)

    @property
    def width(self) -> int:
        """The width of a picture's feature."""
        return self.shape.picture

    def encode(self, pixels: Tensor) -> Tensor:
        """See `SceneNetwork`."""
        return self.network.slots(self.network.maps(pixels))[0].flatten(1)

    def regions(self, pixels: Pixels, boxes: npt.NDArray[Any]) -> Floats:
        """The features of one picture's regions.

        Args:
            pixels: uint8 [height, width, 3].
            boxes: [n, 4], x0, y0, x1, y1 in the picture's pixels.

        Returns:
            float32 [n, width of a region's feature].

        Raises:
            InputError: boxes of another shape, or outside of the picture.
        """
        import torch

        height, width = pixels.shape[:2]
        box_array = np.asarray(boxes, np.float32)
        if box_array.ndim != 2 or box_array.shape[1] != 4 or not np.isfinite(box_array).all():
            raise InputError(f"boxes have the shape {list(box_array.shape)}; expected [n, 4], finite, in pixels")
        relative_boxes = box_array / np.array([width, height, width, height], np.float32)
        if len(box_array) and (
            relative_boxes.min() < -0.01 or relative_boxes.max() > 1.01 or (box_array[:, 2:] < box_array[:, :2]).any()
        ):
            raise InputError(f"a box is outside its image of {width} x {height} pixels, or ends before it begins")
        with torch.inference_mode():
            maps = self.network.maps(self._tensor([pixels]))
            map_index = torch.zeros(len(box_array), dtype=torch.int64, device=self.device)
            region_features = self.network.regions(maps, torch.from_numpy(relative_boxes).to(self.device), map_index)
        return np.asarray(region_features.cpu().numpy(), np.float32)


def resized(pixels: Pixels) -> Pixels:
    """The picture as the network reads it."""
    from capmeter_research.synthetic_scenes.encoder.network import SIDE

    if pixels.shape == (SIDE, SIDE, 3):
        return pixels
    from PIL import Image

    return np.asarray(Image.fromarray(pixels).resize((SIDE, SIDE), Image.Resampling.BOX), np.uint8)


@functools.lru_cache(maxsize=2)
def load_world_encoder(name: str = KIND, device: str = "cpu") -> WorldEncoder:
    """The encoder of a checkpoint: a shipped one, or a folder.

    Raises:
        AssetError: there is none of this name, or it is damaged or of another kind.
    """
    return WorldEncoder(load_checkpoint(name, KIND), device)


def weights_of(network: WorldNetwork) -> dict[str, npt.NDArray[Any]]:
    """A network's weights in half precision, as they are shipped."""
    return {name: each.detach().cpu().numpy().astype(np.float16) for name, each in network.state_dict().items()}
