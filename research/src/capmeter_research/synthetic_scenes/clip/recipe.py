"""The settings of the CLIP of synthetic scenes, its sizes, and its vocabulary."""

from __future__ import annotations

from dataclasses import dataclass

from capmeter.metrics.vision.image_text import PREFIX
from capmeter_research.common.recipe import Recipe
from capmeter_research.synthetic_scenes.scenes.vocabulary import words

START, END, UNKNOWN = "<start>", "<end>", "<unknown>"


@dataclass(frozen=True)
class WorldClipRecipe(Recipe):
    """The settings of a run.

    Args:
        pictures: pictures to train on.
        held_out: pictures of the split `dev` to measure on.
        batch: pictures per step.
        captions: true captions that are known of each picture; one is drawn at each step.
        wrong: captions with one error that stand beside the true one at each step.
        width, layers: of the network of sentences; layers in which words read those around them.
        slot: width of a slot of the common features (see `encoders.world_clip.network`).
        decay_of_weights: of AdamW.
    """

    epochs: int = 8
    lr: float = 2e-3
    warmup: float = 0.05
    lr_schedule: str = "cosine"
    max_grad_norm: float = 1.0
    ema_decay: float = 0.99
    pictures: int = 20_000
    held_out: int = 500
    batch: int = 64
    captions: int = 5
    wrong: int = 4
    width: int = 128
    layers: int = 3
    slot: int = 32
    decay_of_weights: float = 0.05


def vocabulary() -> dict[str, int]:
    """Every word of synthetic scenes and of CLIPScore's prefix, with its number; 0 is the end, which also pads."""
    all_words = [END, START, UNKNOWN, *sorted(words() | set(PREFIX.lower().split()))]
    return {word: word_number for word_number, word in enumerate(all_words)}
