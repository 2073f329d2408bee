"""The settings of LCEval's training; the defaults are those of section 7.4.6."""

from __future__ import annotations

from dataclasses import dataclass

from capmeter.errors import InputError
from capmeter.learning.recipe import Recipe


@dataclass(frozen=True)
class LcEvalRecipe(Recipe):
    """The settings of a run.

    Args:
        epochs: at most this many; `patience` ends a run earlier.
        hidden: nodes of each hidden layer: none, one or two layers.
        batch: examples per batch.
        decay_weights: β of the L2 penalty, β/2 Σ w² over weights without biases (the released code's value).
        starts: 1: the paper's training, by Adam; more: the network learns the mean of networks from so many starts
            (`averaged.py`), and epochs, rate, batch and patience play no part.
    """

    epochs: int = 800
    rate: float = 5e-4
    patience: int = 40
    hidden: tuple[int, ...] = (12,)
    batch: int = 75
    decay_weights: float = 1e-4
    starts: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.hidden) > 2 or any(nodes < 1 for nodes in self.hidden):
            raise InputError(f"hidden: expected at most two layers of one or more nodes, but got {self.hidden}")
        for name in ("batch", "starts"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}: expected 1 or more, but got {getattr(self, name)}")
