"""The settings of a regression head's training."""

from __future__ import annotations

from dataclasses import dataclass

from capmeter_research.common.recipe import Recipe


@dataclass(frozen=True)
class RegressorRecipe(Recipe):
    """The settings of a run.

    Args:
        hidden: width of the hidden layer.
        dropout: share of inputs and hidden units that is dropped in training.
        batch: captions per step.
        held_out: share of the images that is held out, chosen by the seed, and selects the epoch.
        weights: decay of the weights.
        tune: the learning rate of the joint encoder's weights, as a share of the head's; 0: they are frozen.
    """

    epochs: int = 60
    lr: float = 1e-3
    lr_schedule: str = "cosine"
    max_grad_norm: float = 1.0
    patience: int = 15
    hidden: int = 64
    dropout: float = 0.3
    batch: int = 64
    held_out: float = 0.1
    weights: float = 0.1
    tune: float = 0.0


@dataclass(frozen=True)
class InfoMetICRecipe(RegressorRecipe):
    """The settings of a run that trains a head of InfoMetIC's shape.

    Args:
        width, layers, heads: of the Transformer in which words and regions read each other.
    """

    epochs: int = 20
    lr: float = 2e-3
    dropout: float = 0.1
    weights: float = 1e-2
    batch: int = 64
    warmup: float = 0.05
    ema_decay: float = 0.99
    patience: int = 0
    width: int = 64
    layers: int = 2
    heads: int = 4
