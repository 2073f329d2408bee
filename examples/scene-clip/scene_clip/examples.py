"""Training data of the CLIP of synthetic scenes: images, true captions of each, and each caption with its errors."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
from capmeter_research.synthetic_scenes.encoder.encoder import Pixels, resized
from capmeter_research.synthetic_scenes.scenes.captions import true_captions
from capmeter_research.synthetic_scenes.scenes.errors import CONTENT_ERRORS, make_errors
from capmeter_research.synthetic_scenes.scenes.shards import render_shards
from capmeter_research.synthetic_scenes.scenes.vocabulary import words
from capmeter_research.synthetic_scenes.scenes.world import Split, World

from capmeter.metrics.vision.image_text import PREFIX, add_prefix

LENGTH = 40
"""Word pieces of a sentence, begin and end included; the longest of synthetic scenes has 35."""
START, END, UNKNOWN = "<start>", "<end>", "<unknown>"
ERROR_KINDS = (*CONTENT_ERRORS, "hallucinated")
"""The errors that make a caption wrong: what is only missing or clumsy is not."""
Ids = npt.NDArray[np.int16]


@dataclass(frozen=True, eq=False)
class SceneCaptionExamples:
    """Pictures, and sentences as word numbers, padded with the end.

    pixels: uint8 [n, 96, 96, 3]. true: int16 [n, captions, 40]. wrong: int16 [n, captions, kinds, 40], the k-th with an
    error of `ERROR_KINDS[k]`; its first number is -1 where the caption cannot have this error.
    """

    pixels: Pixels
    true: Ids
    wrong: Ids
    digest: str = ""

    def __len__(self) -> int:
        return len(self.pixels)


def numbers_of(text: str, word_ids: dict[str, int]) -> list[int]:
    """The word numbers of a sentence after CLIPScore's prefix, with begin and end, padded."""
    ids = [word_ids.get(word, word_ids[UNKNOWN]) for word in add_prefix(PREFIX, text).lower().split()][: LENGTH - 2]
    word_numbers = [word_ids[START], *ids, word_ids[END]]
    return word_numbers + [word_ids[END]] * (LENGTH - len(word_numbers))


def draw_examples(split: Split, count: int, captions: int, seed: int, workers: int = 1) -> SceneCaptionExamples:
    """Images of a split, each with several captions; the same ones for any number of workers.

    Args:
        split: of the scenes.
        count: number of scenes.
        captions: number of true captions of each.
        seed: of the scenes.
        workers: number of processes.
    """
    return render_shards(partial(_shard, captions=captions), split, count, seed, workers=workers)


def _shard(world: World, captions: int) -> SceneCaptionExamples:
    word_ids = vocabulary()
    pixels = np.stack([resized(np.asarray(scene.render().convert("RGB"), np.uint8)) for scene in world])
    true = np.zeros((len(world), captions, LENGTH), np.int16)
    wrong = np.full((len(world), captions, len(ERROR_KINDS), LENGTH), -1, np.int16)
    for scene_index, scene in enumerate(world):
        rng = np.random.default_rng([world.seed, scene_index])
        for caption_index, caption in enumerate(true_captions(scene, world.seed, captions)):
            true[scene_index, caption_index] = numbers_of(caption.text, word_ids)
            for error_kind, other in make_errors(scene, caption, rng).items():
                if error_kind in ERROR_KINDS:
                    wrong[scene_index, caption_index, ERROR_KINDS.index(error_kind)] = numbers_of(other.text, word_ids)
    digest = hashlib.sha256(pixels.tobytes() + true.tobytes() + wrong.tobytes()).hexdigest()
    return SceneCaptionExamples(pixels, true, wrong, digest)


def vocabulary() -> dict[str, int]:
    """Every word of synthetic scenes and of CLIPScore's prefix, with its number; 0 is the end, which also pads."""
    all_words = [END, START, UNKNOWN, *sorted(words() | set(PREFIX.lower().split()))]
    return {word: word_number for word_number, word in enumerate(all_words)}
