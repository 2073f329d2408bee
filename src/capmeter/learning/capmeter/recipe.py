"""The settings of a training of the metric `capmeter`."""

from __future__ import annotations

from dataclasses import dataclass

from capmeter.learning.recipe import Recipe


@dataclass(frozen=True)
class JudgeRecipe(Recipe):
    """The settings of the run of the network that judges words.

    Args:
        steps: per epoch.
        judged: captions per step, and so many forms of each with one wrong word as there are.
        photos: per step, whose caption stands against its wrong forms, of every strength, whose words are known.
        others: captions per step that are put to the references of another photo.
        width, heads, narrow: of the network, see `capmeter.metrics.capmeter.network.JudgeShape`.
        rank: of the adaptation of the layers that it reads; 0: they stay as they are.
        layers_rate: their learning rate, as a multiple of the network's.
        hardest: so many times a wrong word counts that fits the sentence (`substitution`).
        dropout: in training.
        decayed: decay of the weights.
    """

    epochs: int = 22
    rate: float = 1e-3
    warmup: float = 0.05
    decay: str = "linear"
    clip: float = 1.0
    precision: str = "bfloat16"
    steps: int = 250
    judged: int = 28
    photos: int = 4
    others: int = 4
    width: int = 128
    heads: int = 4
    narrow: int = 128
    rank: int = 16
    layers_rate: float = 0.5
    hardest: float = 2.0
    dropout: float = 0.1
    decayed: float = 0.01


@dataclass(frozen=True)
class CapmeterRecipe(Recipe):
    """The settings of a run.

    Args:
        steps: per epoch.
        pairs: captions per step that are put to the references of more or less similar photos.
        photos: per step, whose caption stands against its wrong forms.
        judged: captions per step whose words alone are judged, and so many forms of each as there are.
        said: photos per step whose captions are read for fluency, and so many more whose wrong forms are, too.
        nearest: a pair's photos are among so many nearest, on average.
        power: the target of a pair is so high a power of the similarity of the two photos' captions.
        alone: so many first epochs learn words alone.
        parts, words: weights of the losses, see `training.py`.
        width, heads, narrow: of the network, see `capmeter.metrics.capmeter.network.Shape`.
        counted: λ, the weights in the score (`capmeter.metrics.capmeter.network`), if no judgments choose them.
        dropout: in training.
        decayed: decay of the weights.
    """

    epochs: int = 14
    rate: float = 1e-3
    warmup: float = 0.05
    decay: str = "linear"
    clip: float = 1.0
    steps: int = 120
    pairs: int = 96
    photos: int = 20
    judged: int = 60
    said: int = 40
    nearest: float = 20.0
    power: float = 3.0
    alone: int = 4
    parts: float = 0.3
    words: float = 0.5
    width: int = 96
    heads: int = 4
    narrow: int = 64
    counted: tuple[float, float, float, float, float, float] = (24.0, 6.0, 12.0, 1.0, 2.0, 1.2)
    dropout: float = 0.1
    decayed: float = 0.01
