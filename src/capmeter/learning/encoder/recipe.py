"""The settings of a training of an encoder's adaptation."""

from __future__ import annotations

from dataclasses import dataclass

from capmeter.learning.recipe import Recipe


@dataclass(frozen=True)
class EncoderRecipe(Recipe):
    """The settings of a run.

    Args:
        steps: per epoch.
        clusters: per step, each a photo and some of those that are most like it.
        near: photos in a cluster.
        nearest: the others are among so many nearest ones, on average.
        power: the target of two photos is so high a power of the similarity of their captions.
        rank: of the adaptation.
        dropout: in training.
        decayed: decay of the weights.
        slope, offset: of the logistic function of a cosine, as they begin.
        calibration_rate: their learning rate, as a multiple of that of the adaptation.
    """

    epochs: int = 12
    rate: float = 5e-4
    warmup: float = 0.05
    decay: str = "linear"
    clip: float = 1.0
    precision: str = "bfloat16"
    steps: int = 100
    clusters: int = 12
    near: int = 3
    nearest: float = 20.0
    power: float = 1.5
    rank: int = 16
    dropout: float = 0.1
    decayed: float = 0.01
    slope: float = 10.0
    offset: float = -6.0
    calibration_rate: float = 20.0
