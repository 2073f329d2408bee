"""The world encoder, ready for use: pictures to features, and regions to features.

It was trained on drawn pictures of the made world alone, and knows nothing else: it stands in where a detector and a
picture encoder are needed for the made world.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from capmeter.checkpoints import Checkpoint, load_checkpoint
from capmeter.encoders.models import require_neural
from capmeter.errors import AssetError, InputError

if TYPE_CHECKING:
    from capmeter.encoders.world.network import WorldNetwork, WorldShape

KIND = "world-encoder"
Floats = npt.NDArray[np.float32]
Pixels = npt.NDArray[np.uint8]
_AT_ONCE = 64


class WorldEncoder:
    """Features of pictures and of their regions.

    Args:
        checkpoint: of the kind `world-encoder`.
        device: a torch device.

    Raises:
        AssetError: the checkpoint's weights are not those of the network.
        MissingBackend: torch is not installed.
    """

    def __init__(self, checkpoint: Checkpoint, device: str = "cpu") -> None:
        require_neural()
        import torch

        from capmeter.encoders.world.network import WorldNetwork, WorldShape

        self.label, self.device = checkpoint.label, device
        try:
            self.shape = WorldShape(**checkpoint.parameters["shape"])
            self.network = WorldNetwork(self.shape)
            weights = {
                name: torch.from_numpy(np.asarray(each, np.float32)) for name, each in checkpoint.weights.items()
            }
            self.network.load_state_dict(weights)
        except (KeyError, TypeError, RuntimeError) as error:
            raise AssetError(f"checkpoint {checkpoint.label}: not a world encoder ({error}); train it again") from error
        self.network.eval().to(device)

    @property
    def width(self) -> int:
        """The width of a picture's feature."""
        return self.shape.picture

    @property
    def region_width(self) -> int:
        """The width of a region's feature."""
        return self.shape.region

    def pictures(self, pixels: Sequence[Pixels]) -> Floats:
        """The features of pictures.

        Args:
            pixels: uint8 [height, width, 3] each; other sizes than 96 x 96 are resized.

        Returns:
            float32 [n, width].
        """
        made = [self._pictures(pixels[k : k + _AT_ONCE]) for k in range(0, len(pixels), _AT_ONCE)]
        return np.concatenate(made) if made else np.zeros((0, self.width), np.float32)

    def regions(self, pixels: Pixels, boxes: npt.NDArray[Any]) -> Floats:
        """The features of one picture's regions.

        Args:
            pixels: uint8 [height, width, 3].
            boxes: [n, 4], x0, y0, x1, y1 in the picture's pixels.

        Returns:
            float32 [n, region_width].

        Raises:
            InputError: boxes of another shape, or outside of the picture.
        """
        import torch

        height, width = pixels.shape[:2]
        given = np.asarray(boxes, np.float32)
        if given.ndim != 2 or given.shape[1] != 4 or not np.isfinite(given).all():
            raise InputError(f"boxes have the shape {list(given.shape)}; expected [n, 4], finite, in pixels")
        relative = given / np.array([width, height, width, height], np.float32)
        if len(given) and (relative.min() < -0.01 or relative.max() > 1.01 or (given[:, 2:] < given[:, :2]).any()):
            raise InputError(
                f"a box lies outside of its picture of {width} x {height} pixels, or ends before it begins"
            )
        with torch.inference_mode():
            maps = self.network.maps(self._tensor([pixels]))
            place = torch.zeros(len(given), dtype=torch.int64, device=self.device)
            made = self.network.regions(maps, torch.from_numpy(relative).to(self.device), place)
        return np.asarray(made.cpu().numpy(), np.float32)

    def _pictures(self, pixels: Sequence[Pixels]) -> Floats:
        import torch

        with torch.inference_mode():
            slots, _ = self.network.slots(self.network.maps(self._tensor(pixels)))
        return np.asarray(slots.flatten(1).float().cpu().numpy(), np.float32)

    def _tensor(self, pixels: Sequence[Pixels]) -> Any:
        import torch

        return torch.from_numpy(np.stack([resized(each) for each in pixels])).to(self.device)


def resized(pixels: Pixels) -> Pixels:
    """The picture as the network reads it."""
    from capmeter.encoders.world.network import SIDE

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


def shape_to_dict(shape: WorldShape) -> dict[str, int]:
    """The shape as checkpoint parameters."""
    return asdict(shape)


def weights_of(network: WorldNetwork) -> dict[str, npt.NDArray[Any]]:
    """A network's weights in half precision, as they are shipped."""
    return {name: each.detach().cpu().numpy().astype(np.float16) for name, each in network.state_dict().items()}
