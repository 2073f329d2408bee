"""The sizes of the captioner's network."""

from __future__ import annotations

from dataclasses import dataclass, fields

from capmeter.core.errors import InputError


@dataclass(frozen=True)
class CaptionerSizes:
    """What does not follow from the regions; the defaults are the paper's.

    Args:
        width: of the states.
        hidden: of the feed-forward layers.
        heads: of attention; they divide the width.
        encoder_layers: layers that see.
        decoder_layers: layers that write.
        geometry: numbers in the embedding of a displacement, a multiple of 8; 0: attention without geometry.
        positions: each region's box and its size, 7 numbers, are added to its features (not in the paper, whose
            displacements do not say what is left and what is right).
        dropout: share of values that are set to 0 in training.
    """

    width: int = 512
    hidden: int = 2048
    heads: int = 8
    encoder_layers: int = 6
    decoder_layers: int = 6
    geometry: int = 64
    positions: bool = False
    dropout: float = 0.1


@dataclass(frozen=True)
class CaptionerShape(CaptionerSizes):
    """All sizes of the network.

    Args:
        features: numbers per region.
    """

    features: int = 2048

    def __post_init__(self) -> None:
        for field in fields(self):
            value, minimum = getattr(self, field.name), int(field.name != "geometry")
            if field.name not in ("dropout", "positions") and not (type(value) is int and value >= minimum):
                raise InputError(f"captioner: {field.name}={value!r}, expected a whole number from {minimum}")
        if type(self.positions) is not bool:
            raise InputError(f"captioner: positions={self.positions!r}, expected true or false")
        if self.width % self.heads or self.width % 2:
            raise InputError(f"captioner: width {self.width} is not even, or not divisible by {self.heads} heads")
        if self.geometry % 8:
            raise InputError(f"captioner: geometry={self.geometry}, expected a multiple of 8")
        if not 0 <= self.dropout < 1:
            raise InputError(f"captioner: dropout={self.dropout}, expected a share from 0 to below 1")
