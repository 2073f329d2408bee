"""The settings of a run of training."""

from __future__ import annotations

import math
from dataclasses import dataclass

from capmeter.errors import InputError

DECAYS = ("constant", "linear", "cosine")
PRECISIONS = ("float32", "bfloat16")


@dataclass(frozen=True)
class Recipe:
    """The settings of a run, for every kind of training; each kind adds its own as fields of a subclass.

    Args:
        epochs: number of passes over the examples.
        rate: highest learning rate.
        warmup: share of the run in which the rate rises from 0.
        decay: how the rate falls to 0 over the run: `linear`, `cosine`, or not (`constant`).
        gamma: the rate is multiplied by this after every epoch.
        clip: gradients are clipped to this norm; 0: they are not.
        average: decay of the moving average of the weights, every fourth step; 0: the weights themselves are taken.
        accumulate: batches per step.
        patience: ends after this many epochs without a better selected score; 0: never.
        precision: `float32`, or `bfloat16` for the forward pass.
        seed: of the initial weights, the order of batches, and dropout.
    """

    epochs: int = 30
    rate: float = 1e-3
    warmup: float = 0.0
    decay: str = "constant"
    gamma: float = 1.0
    clip: float = 0.0
    average: float = 0.0
    accumulate: int = 1
    patience: int = 0
    precision: str = "float32"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.decay not in DECAYS:
            raise InputError(f"decay: expected one of {', '.join(DECAYS)}, but got {self.decay!r}")
        if self.precision not in PRECISIONS:
            raise InputError(f"precision: expected one of {', '.join(PRECISIONS)}, but got {self.precision!r}")
        if not 0 <= self.warmup <= 1:
            raise InputError(f"warmup: expected a share of the run from 0 to 1, but got {self.warmup}")
        for name in ("epochs", "accumulate"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}: expected 1 or more, but got {getattr(self, name)}")

    def rate_at(self, progress: float, epoch: int) -> float:
        """The learning rate when a share `progress` of the run is done, in `epoch` (from 0)."""
        rate = self.rate * self.gamma**epoch
        if self.warmup:
            rate *= min(1.0, progress / self.warmup)
        if self.decay == "linear":
            rate *= 1 - progress
        elif self.decay == "cosine":
            rate *= (1 + math.cos(math.pi * progress)) / 2
        return rate
