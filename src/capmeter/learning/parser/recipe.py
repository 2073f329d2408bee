"""The settings of a run of training."""

from __future__ import annotations

from dataclasses import dataclass

AVERAGED_EVERY = 4


@dataclass(frozen=True)
class Recipe:
    """The settings of a run.

    Args:
        epochs: how often each sentence is read.
        tokens: of one batch.
        rate: highest learning rate. It rises for `warmup` steps, a tenth of the run at most, and falls to 0 in a
            straight line.
        told: share of sentences whose right tags are told to the layers behind the tags.
        norm: gradients are scaled down to this length.
        average: weight of the past in the average of weights that is kept, per `AVERAGED_EVERY` steps.
        seed: of the first weights, the order of batches, and dropout.
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
