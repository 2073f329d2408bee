"""The settings of a run that trains a caption writer."""

from __future__ import annotations

from dataclasses import dataclass, fields

from capmeter.core.errors import InputError
from capmeter_research.common.recipe import Recipe


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


STEPS_PER_EPOCH = 100
"""Epochs are a fixed number of steps (sampling with replacement)."""
STRENGTHS = (300, 1000)


@dataclass(frozen=True)
class WriterRecipe(Recipe, WriterShape):
    """The settings of a run; the network's sizes are fields, too.

    Args:
        batch: captions per step.
        photos: number of training photos, sampled by the seed; 0: all.
        pieces: number of subwords.
        nouns: share of examples that read nouns.
        captions: share of examples that read captions as they are; the rest read a bag of words.
        two: share of examples that read two captions instead of one.
        blank: share of examples that read nothing, so that the writer is also a language model.
        lost: an example loses a share of its words that is drawn uniformly from 0 to this.
        noise: share of words of a bag that are taken for any other word.
        strengths: steps after which the weights are kept as weaker writers.
    """

    epochs: int = 30
    lr: float = 3e-3
    warmup: float = 0.05
    lr_schedule: str = "linear"
    max_grad_norm: float = 1.0
    batch: int = 64
    photos: int = 0
    pieces: int = 3000
    nouns: float = 0.2
    captions: float = 0.3
    two: float = 0.3
    blank: float = 0.03
    lost: float = 0.5
    noise: float = 0.03
    strengths: tuple[int, ...] = STRENGTHS

    def __post_init__(self) -> None:
        invalid_strengths = [strength for strength in self.strengths if strength < 1 or strength % STEPS_PER_EPOCH]
        if invalid_strengths:
            raise InputError(
                f"strengths: expected multiples of {STEPS_PER_EPOCH} steps, but got {invalid_strengths[0]}"
            )

    @property
    def shape(self) -> WriterShape:
        """The sizes of the network."""
        return WriterShape(**{field.name: getattr(self, field.name) for field in fields(WriterShape)})
