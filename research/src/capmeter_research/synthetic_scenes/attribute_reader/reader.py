"""The reader of synthetic scenes, ready for use: pictures to tables of what is seen in them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from capmeter.core.checkpoints import Checkpoint, load_checkpoint, rebuilding
from capmeter.encoders.handle import require_neural
from capmeter.encoders.text.layers import load_module
from capmeter_research.synthetic_scenes.encoder.encoder import Floats, Pixels, resized

if TYPE_CHECKING:
    from collections.abc import Mapping

    from capmeter_research.synthetic_scenes.attribute_reader.network import AttributeReaderShape

KIND = "world-reader"
_AT_ONCE = 64


class WorldReader:
    """Pictures to tables of what is seen.

    Args:
        checkpoint: of the kind `world-reader`; it holds the encoder that sees, and the reader.
        device: a torch device.

    Raises:
        AssetError: the checkpoint's weights are not those of the network.
        MissingBackend: torch is not installed.
    """

    def __init__(self, checkpoint: Checkpoint, device: str = "cpu") -> None:
        require_neural()
        from capmeter_research.synthetic_scenes.attribute_reader.network import SeeingReader
        from capmeter_research.synthetic_scenes.encoder.network import WorldShape

        self.label, self.device = checkpoint.label, device
        with rebuilding("a world reader", checkpoint.label):
            sees, shape = WorldShape(**checkpoint.parameters["encoder"]), shape_of(checkpoint.parameters["shape"])
            self.network = load_module(lambda: SeeingReader(sees, shape), checkpoint.weights).to(device)

    @property
    def width(self) -> int:
        """The width of a picture's feature."""
        reader_shape = self.network.reader.shape
        return (self.network.encoder.shape.kinds + 1) * reader_shape.row + reader_shape.backgrounds

    def pictures(self, pixels: Sequence[Pixels]) -> Floats:
        """The tables of pictures, uint8 [height, width, 3] each: float32 [n, width]."""
        picture_tables = [self._tables(pixels[start : start + _AT_ONCE]) for start in range(0, len(pixels), _AT_ONCE)]
        return np.concatenate(picture_tables) if picture_tables else np.zeros((0, self.width), np.float32)

    def _tables(self, pixels: Sequence[Pixels]) -> Floats:
        import torch

        with torch.inference_mode():
            image_batch = torch.from_numpy(np.stack([resized(each) for each in pixels])).to(self.device)
            return np.asarray(self.network.tables(image_batch).cpu().numpy(), np.float32)


@functools.lru_cache(maxsize=2)
def load_world_reader(name: str = KIND) -> WorldReader:
    """The reader of a checkpoint, a shipped one or a folder.

    Raises:
        AssetError: there is none of this name, or it is damaged or of another kind.
    """
    return WorldReader(load_checkpoint(name, KIND))


def shape_of(parameters: Mapping[str, Any]) -> AttributeReaderShape:
    """The shape from checkpoint parameters."""
    from capmeter_research.synthetic_scenes.attribute_reader.network import AttributeReaderShape

    sizes: dict[str, Any] = {name: tuple(each) if isinstance(each, list) else each for name, each in parameters.items()}
    return AttributeReaderShape(**sizes)
