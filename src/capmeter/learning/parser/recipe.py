"""The settings of a run of training."""

from __future__ import annotations

from dataclasses import dataclass

AVERAGED_EVERY = 4


@dataclass(frozen=True)
class Recipe:
    """The settings of a run.

    Args:
        epochs: number of passes over the sentences.
        tokens: tokens per batch.
        rate: highest learning rate. It rises for `warmup` steps, at most a tenth of the run, and falls linearly to
            0.
        told: share of sentences whose gold tags are given to the layers after tagging.
        norm: gradients are clipped to this norm.
        average: decay of the moving average of the weights, per `AVERAGED_EVERY` steps.
        seed: seed of the initial weights, the order of batches, and dropout.
    """

    epochs: int = 30
    tokens: int = 1200
    rate: float = 2e-3
    warmup: int = 400
    told: float = 0.5
    norm: float = 2.0
    average: float = 0.997
    width: int = 128
    hidden: int = 384
    dropout: float = 0.1
    word_dropout: float = 0.15
    seed: int = 0
