"""The sizes of the writer's network."""

from __future__ import annotations

from dataclasses import dataclass, fields

from capmeter.core.errors import InputError


@dataclass(frozen=True)
class WriterShape:
    """Sizes.

    Args:
        width: of the states.
        hidden: of the feed-forward layers.
        heads: of attention; they divide the width.
        read_layers: layers that read the source.
        write_layers: layers that write the target.
        dropout: share of values that are set to 0 in training.
    """

    width: int = 128
    hidden: int = 256
    heads: int = 4
    read_layers: int = 1
    write_layers: int = 2
    dropout: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name != "dropout" and not (type(value) is int and value > 0):
                raise InputError(f"writer: {field.name}={value!r}, expected a whole number from 1")
        if self.width % self.heads:
            raise InputError(f"writer: width {self.width} is not divisible by {self.heads} heads")
        if not 0 <= self.dropout < 1:
            raise InputError(f"writer: dropout={self.dropout}, expected a share from 0 to below 1")
