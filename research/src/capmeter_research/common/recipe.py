"""The settings of a training run."""

from __future__ import annotations

import math
from dataclasses import dataclass

LR_SCHEDULES = ("constant", "linear", "cosine")
PRECISIONS = ("float32", "bfloat16")


@dataclass(frozen=True)
class Recipe:
    """The settings of a training run; each kind of training adds its own as fields of a subclass."""

    epochs: int = 30  # number of passes over the examples
    lr: float = 1e-3  # highest learning rate
    warmup: float = 0.0  # share of the run in which the learning rate rises from 0
    # how the learning rate falls to 0 over the run: `linear`, `cosine` or not at all (`constant`)
    lr_schedule: str = "constant"
    gamma: float = 1.0  # the learning rate is multiplied by this after every epoch
    max_grad_norm: float = 0.0  # gradients are clipped to this norm; 0: no clipping
    # decay of the exponential moving average of the weights, updated every fourth step, which is evaluated and
    # selected; 0: no averaging
    ema_decay: float = 0.0
    accumulate: int = 1  # batches per optimiser step
    patience: int = 0  # stop after this many epochs without a better selection score; 0: never
    precision: str = "float32"  # `float32`, or `bfloat16` for the forward pass
    seed: int = 0  # of the initial weights, the order of the batches, and dropout

    def lr_at(self, progress: float, epoch: int) -> float:
        """The learning rate when a share `progress` of the run is done, in `epoch` (from 0)."""
        lr = self.lr * self.gamma**epoch
        if self.warmup:
            lr *= min(1.0, progress / self.warmup)
        if self.lr_schedule == "linear":
            lr *= 1 - progress
        elif self.lr_schedule == "cosine":
            lr *= (1 + math.cos(math.pi * progress)) / 2
        return lr
