"""The settings of a regression head's training."""

from __future__ import annotations

from dataclasses import dataclass

from capmeter.learning.recipe import Recipe


@dataclass(frozen=True)
class RegressorRecipe(Recipe):
    """The settings of a run.

    Args:
        hidden: width of the hidden layer.
        dropout: share of inputs and hidden units that is dropped in training.
        batch: captions per step.
        held_out: share of the images that is held out, chosen by the seed, and selects the epoch.
        weights: decay of the weights.
    """

    epochs: int = 60
    rate: float = 1e-3
    decay: str = "cosine"
    clip: float = 1.0
    patience: int = 15
    hidden: int = 128
    dropout: float = 0.1
    batch: int = 128
    held_out: float = 0.1
    weights: float = 1e-2
