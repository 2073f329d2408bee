"""The reader of the made world, ready for use: pictures to tables of what the world encoder sees in them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from capmeter.checkpoints import Checkpoint, load_checkpoint
from capmeter.encoders.world.encoder import Floats, Pixels, WorldEncoder, load_world_encoder, resized
from capmeter.errors import AssetError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from capmeter.encoders.world_reader.network import ReaderShape

KIND = "world-reader"
_AT_ONCE = 64


def seen(encoder: WorldEncoder, pixels: npt.NDArray[np.uint8]) -> tuple[Tensor, Tensor]:
    """The slots and the peaks of pictures, uint8 [n, 96, 96, 3]."""
    import torch

    from capmeter.encoders.world_reader.network import heat_peaks

    parts = []
    with torch.inference_mode():
        for start in range(0, len(pixels), _AT_ONCE):
            given = torch.from_numpy(pixels[start : start + _AT_ONCE]).to(encoder.device)
            slots, heat = encoder.network.slots(encoder.network.maps(given))
            parts.append((slots.float(), heat_peaks(heat)))
    slots, peaks = (torch.cat(each) for each in zip(*parts, strict=True))
    return slots, peaks


class WorldReader:
    """Pictures to tables of what is seen.

    Args:
        checkpoint: of the kind `world-reader`.
        encoder: whose slots it was trained to read.

    Raises:
        AssetError: the checkpoint's weights are not those of the network, or it reads another encoder.
    """

    def __init__(self, checkpoint: Checkpoint, encoder: WorldEncoder) -> None:
        import torch

        from capmeter.encoders.world_reader.network import ReaderNetwork

        self.label, self.encoder = checkpoint.label, encoder
        try:
            shape, read = shape_of(checkpoint.parameters["shape"]), checkpoint.parameters["encoder"]
            self.network = ReaderNetwork(shape)
            self.network.load_state_dict(
                {name: torch.from_numpy(np.asarray(each, np.float32)) for name, each in checkpoint.weights.items()}
            )
        except (KeyError, TypeError, RuntimeError) as error:
            raise AssetError(f"checkpoint {checkpoint.label}: not a world reader ({error}); train it again") from error
        if read != encoder.label:
            raise AssetError(
                f"checkpoint {checkpoint.label} reads what {read} sees, but the encoder is {encoder.label}; name the "
                "encoder that it was trained with, or train a reader for this one: capmeter train world-reader"
            )
        self.network.eval().to(encoder.device)

    @property
    def width(self) -> int:
        """The width of a picture's feature."""
        shape = self.network.shape
        return (self.encoder.shape.kinds + 1) * shape.row + shape.backgrounds

    def pictures(self, pixels: Sequence[Pixels]) -> Floats:
        """The tables of pictures, uint8 [height, width, 3] each: float32 [n, width]."""
        import torch

        if not len(pixels):
            return np.zeros((0, self.width), np.float32)
        with torch.inference_mode():
            made = self.network.table(*seen(self.encoder, np.stack([resized(each) for each in pixels])))
        return np.asarray(made.cpu().numpy(), np.float32)


@functools.lru_cache(maxsize=2)
def load_world_reader(name: str = KIND, encoder: str = "world-encoder", device: str = "cpu") -> WorldReader:
    """The reader of a checkpoint, a shipped one or a folder, with its encoder.

    Raises:
        AssetError: there is none of this name, it is damaged or of another kind, or it reads another encoder.
    """
    return WorldReader(load_checkpoint(name, KIND), load_world_encoder(encoder, device))


def shape_of(said: Mapping[str, Any]) -> ReaderShape:
    """The shape from checkpoint parameters."""
    from capmeter.encoders.world_reader.network import ReaderShape

    known: dict[str, Any] = {name: tuple(each) if isinstance(each, list) else each for name, each in said.items()}
    return ReaderShape(**known)
