"""The settings of the made world's CLIP, its sizes, and its vocabulary."""

from __future__ import annotations

from dataclasses import dataclass

from capmeter.learning.recipe import Recipe
from capmeter.learning.world.vocabulary import words
from capmeter.metrics.image_text import PREFIX

SIDE = 96
START, END, UNKNOWN = "<start>", "<end>", "<unknown>"
MEAN, DEVIATION = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
"""How CLIP's image processors standardise colours."""


@dataclass(frozen=True)
class WorldClipRecipe(Recipe):
    """The settings of a run.

    Args:
        pictures: pictures to train on.
        held_out: pictures of the split `dev` to measure on.
        batch: pictures per step.
        captions: true captions that are known of each picture; one is drawn at each step.
        wrong: captions with one error that stand beside the true one at each step.
        known: weight of what is known of every patch of a picture (see `training`); 0: captions alone teach.
        width, vision_layers, text_layers, patch: of the network.
        decay_of_weights: of AdamW.
    """

    epochs: int = 50
    rate: float = 1e-3
    warmup: float = 0.05
    decay: str = "cosine"
    clip: float = 1.0
    average: float = 0.99
    pictures: int = 100_000
    held_out: int = 1000
    batch: int = 512
    captions: int = 4
    wrong: int = 4
    known: float = 0.5
    width: int = 192
    vision_layers: int = 7
    text_layers: int = 3
    patch: int = 8
    decay_of_weights: float = 0.05


def vocabulary() -> dict[str, int]:
    """Every word of the made world and of CLIPScore's prefix, with its number; 0 is the end, which also pads."""
    known = [END, START, UNKNOWN, *sorted(words() | set(PREFIX.lower().split()))]
    return {word: number for number, word in enumerate(known)}
