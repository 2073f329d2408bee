"""The settings of a captioner's training: of cross-entropy, and of the self-critical training that follows."""

from __future__ import annotations

from dataclasses import dataclass, fields

from capmeter.core.errors import InputError
from capmeter_research.common.recipe import Recipe
from capmeter_research.papers.subicap.segmentation import KINDS
from capmeter_research.papers.subicap.shape import CaptionerShape, CaptionerSizes


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
        super().__post_init__()
        _at_least(1, self, "batch", "captions", "pieces", "checked")
        _at_least(0, self, "words")
        if self.segmentation not in KINDS:
            raise InputError(f"segmentation: expected one of {', '.join(KINDS)}, but got {self.segmentation!r}")
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

    def __post_init__(self) -> None:
        super().__post_init__()
        _at_least(1, self, "batch", "samples", "checked")
        if not self.temperature > 0:
            raise InputError(f"temperature: expected more than 0, but got {self.temperature}")


def _at_least(least: int, recipe: Recipe, *field_names: str) -> None:
    for field_name in field_names:
        if getattr(recipe, field_name) < least:
            raise InputError(f"{field_name}: expected {least} or more, but got {getattr(recipe, field_name)}")


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
