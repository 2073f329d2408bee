"""The settings of a captioner's training: of cross-entropy, and of the self-critical training that follows."""

from __future__ import annotations

from dataclasses import dataclass, fields

from capmeter.core.errors import InputError
from capmeter_research.common.recipe import Recipe


@dataclass(frozen=True)
class CaptionerSizes:
    """What does not follow from the regions; the defaults are the paper's.

    Args:
        width: of the states.
        hidden: of the feed-forward layers.
        heads: of attention; they divide the width.
        encoder_layers: layers that see.
        decoder_layers: layers that write.
        geometry: numbers in the embedding of a displacement, a multiple of 8; 0: attention without geometry.
        positions: each region's box and its size, 7 numbers, are added to its features (not in the paper, whose
            displacements do not say what is left and what is right).
        dropout: share of values that are set to 0 in training.
    """

    width: int = 512
    hidden: int = 2048
    heads: int = 8
    encoder_layers: int = 6
    decoder_layers: int = 6
    geometry: int = 64
    positions: bool = False
    dropout: float = 0.1


@dataclass(frozen=True)
class CaptionerShape(CaptionerSizes):
    """All sizes of the network.

    Args:
        features: numbers per region.
    """

    features: int = 2048

    def __post_init__(self) -> None:
        if self.width % self.heads or self.width % 2:
            raise InputError(f"captioner: width {self.width} is not even, or not divisible by {self.heads} heads")
        if self.geometry % 8:
            raise InputError(f"captioner: geometry={self.geometry}, expected a multiple of 8")


@dataclass(frozen=True)
class CaptionerRecipe(Recipe, CaptionerSizes):
    """The settings of training by cross-entropy; the defaults are the paper's, for COCO.

    The network's sizes are fields, too.

    Args:
        batch: pictures per step.
        captions: captions per picture and step.
        segmentation: `word`, `char`, `bpe` or `unigram`.
        pieces: number of entries in the vocabulary.
        words: captions are truncated to this many words first; 0: not.
        plain: captions are learned in lower case and without punctuation.
        checked: number of held-out images whose captions select the epoch.
    """

    epochs: int = 30
    lr: float = 5e-4
    warmup: float = 0.05
    lr_schedule: str = "cosine"
    max_grad_norm: float = 1.0
    batch: int = 15
    captions: int = 5
    segmentation: str = "unigram"
    pieces: int = 1085
    words: int = 16
    plain: bool = True
    checked: int = 1000

    def __post_init__(self) -> None:
        self.shape(1)

    def shape(self, features: int) -> CaptionerShape:
        """The sizes of the network, for regions with this many features."""
        sizes = {field.name: getattr(self, field.name) for field in fields(CaptionerSizes)}
        return CaptionerShape(features=features, **sizes)


@dataclass(frozen=True)
class SelfCriticalRecipe(Recipe):
    """The settings of self-critical training (Rennie et al. 2017).

    Args:
        batch: pictures per step.
        samples: captions that are sampled for each picture.
        temperature: of sampling, and of the probabilities that are raised. Below 1 samples are nearer to the greedy
            caption, which helps where captions of a picture differ much.
        reward: the metric, by name.
        checked: number of held-out images whose captions select the epoch.
    """

    epochs: int = 15
    lr: float = 2e-5
    max_grad_norm: float = 1.0
    batch: int = 10
    samples: int = 5
    temperature: float = 1.0
    reward: str = "cider-d"
    checked: int = 1000


WORLD = CaptionerRecipe(
    epochs=8,
    lr=4e-3,
    batch=32,
    segmentation="bpe",
    pieces=500,
    words=0,
    checked=300,
    width=128,
    hidden=256,
    heads=4,
    encoder_layers=2,
    decoder_layers=2,
    geometry=32,
    positions=True,
    dropout=0.0,
)
WORLD_SELF_CRITICAL = SelfCriticalRecipe(
    epochs=4, lr=5e-4, warmup=0.02, lr_schedule="cosine", batch=32, temperature=0.5, checked=300
)
"""The small captioner of synthetic scenes."""
