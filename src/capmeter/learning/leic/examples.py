"""What a critic is trained on: images with human captions, machine captions and samples, as numbers of words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.captions.model import SentencePool
from capmeter.errors import InputError
from capmeter.learning.leic.recipe import MACHINE, SAMPLES, CriticRecipe
from capmeter.metrics.leic.forward import STEPS
from capmeter.metrics.leic.vocabulary import PAD, CriticVocabulary, tokens_of, word_counts
from capmeter.ragged import Ragged

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class CaptionedImage:
    """An image with what is said of it.

    id: of the image. human: at least two captions. machine: captions of one or several captioners. samples:
    Monte-Carlo samples of a captioner.
    """

    id: str
    human: tuple[str, ...]
    machine: tuple[str, ...] = ()
    samples: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Examples:
    """Images as numbers.

    Args:
        ids: of the images.
        windows: int32[captions, 15]: every distinct caption's word numbers, padded.
        lengths: how many of these are not padding.
        human, machine, samples: per image, its captions' rows in `windows`.
        features: float32[images, width], or None.
    """

    ids: tuple[str, ...]
    windows: npt.NDArray[np.int32]
    lengths: Integers
    human: Ragged
    given: Mapping[str, Ragged] = field(repr=False)
    features: npt.NDArray[np.float32] | None = None

    def __len__(self) -> int:
        return len(self.ids)


def learn_vocabulary(images: Sequence[CaptionedImage], recipe: CriticRecipe) -> CriticVocabulary:
    """The words of the human captions (A.2)."""
    pool = SentencePool([caption for image in images for caption in image.human])
    return CriticVocabulary.learn(word_counts(tokens_of(pool, False)), recipe.words, recipe.least)


def as_examples(images: Sequence[CaptionedImage], vocabulary: CriticVocabulary, features: Any = None) -> Examples:
    """The images as numbers; captions are read as the metric reads them.

    Raises:
        InputError: an image has fewer than two human captions, or none is given.
    """
    poor = [image.id for image in images if len(image.human) < 2]
    if poor:
        raise InputError(
            f"{len(poor)} images have fewer than two human captions (the first: {', '.join(poor[:5])}); one is the "
            "reference and another the positive example, so leave these images out"
        )
    if len(images) < 2:
        raise InputError(f"expected at least two images to train on, but got {len(images)}")
    row: dict[str, int] = {}

    def rows(captions: Sequence[Sequence[str]]) -> Ragged:
        return Ragged.from_rows([[row.setdefault(each, len(row)) for each in own] for own in captions], np.int64)

    human = rows([image.human for image in images])
    given = {
        MACHINE: rows([image.machine for image in images]),
        SAMPLES: rows([image.samples for image in images]),
    }
    numbers = vocabulary.table(tokens_of(SentencePool(list(row)), False))
    windows = np.full((len(numbers), STEPS), PAD, np.int32)
    lengths = numbers.lengths
    windows[np.arange(STEPS) < lengths[:, None]] = numbers.values
    return Examples(tuple(image.id for image in images), windows, lengths, human, given, features)
