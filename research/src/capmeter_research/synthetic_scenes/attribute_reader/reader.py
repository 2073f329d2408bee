"""The reader of synthetic scenes, ready for use: pictures to tables of what is seen in them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from capmeter.core.checkpoints import Checkpoint, load_checkpoint
from capmeter.encoders.text.layers import load_module
from capmeter_research.synthetic_scenes.encoder.encoder import SceneNetwork

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from capmeter_research.synthetic_scenes.attribute_reader.network import AttributeReaderShape

KIND = "world-reader"


class WorldReader(SceneNetwork):
    """Pictures to tables of what is seen; its checkpoint, of the kind `world-reader`, also holds the encoder."""

    def build(self, checkpoint: Checkpoint) -> None:
        """See `SceneNetwork`."""
        from capmeter_research.synthetic_scenes.attribute_reader.network import SeeingReader
        from capmeter_research.synthetic_scenes.encoder.network import WorldShape

        sees, shape = WorldShape(**checkpoint.parameters["encoder"]), shape_of(checkpoint.parameters["shape"])
        self.network = load_module(lambda: SeeingReader(sees, shape), checkpoint.weights).to(self.device)

    @property
    def width(self) -> int:
        """The width of a picture's feature."""
        reader_shape = self.network.reader.shape
        return (self.network.encoder.shape.kinds + 1) * reader_shape.row + reader_shape.backgrounds

    def encode(self, pixels: Tensor) -> Tensor:
        """See `SceneNetwork`."""
        return self.network.tables(pixels)


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
