"""What a critic is trained on: images with human captions, machine captions and samples, as numbers of words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import SentencePool
from capmeter.core.errors import InputError
from capmeter.core.messages import format_count
from capmeter.core.ragged import Ragged
from capmeter_research.common.image_features import FeatureFile
from capmeter_research.papers.leic.shape import MAX_WORDS
from capmeter_research.papers.leic.training.recipe import MACHINE, SAMPLES, CriticRecipe
from capmeter_research.papers.leic.vocabulary import PAD, CriticVocabulary, count_words, tokenise_captions

_MOST_READ = 63  # bits
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class MachineText:
    """A caption that a machine wrote.

    Args:
        caption: what it wrote.
        read: the places of the human captions that the machine had read: none of them is its reference.
        system: the machine's name.
        of: the place of the human caption that it is a changed copy of, then the positive example; -1: of none.
    """

    caption: str
    read: tuple[int, ...] = ()
    system: str = ""
    of: int = -1


@dataclass(frozen=True)
class CaptionedImage:
    """An image with what is said of it.

    id: of the image. human: at least two captions. machine: captions of one or several captioners. samples:
    Monte-Carlo samples of a captioner.
    """

    id: str
    human: tuple[str, ...]
    machine: tuple[MachineText, ...] = ()
    samples: tuple[MachineText, ...] = ()


@dataclass(frozen=True, eq=False)
class GivenTable:
    """The captions of a source, per image: `rows` of captions, which human captions were read, as bits, and the human
    caption that each is a changed copy of (-1: of none).
    """

    rows: Ragged
    read: Integers
    of: Integers


@dataclass(frozen=True, eq=False)
class ImageExamples:
    """Images as numbers.

    Args:
        ids: of the images.
        windows: int32[captions, steps]: every distinct caption's word numbers, padded.
        lengths: how many of these are not padding.
        human: per image, the rows of its human captions in `windows`.
        given: machine captions and samples, by the name of the source.
        features: float32[images, width], or None.
    """

    ids: tuple[str, ...]
    windows: npt.NDArray[np.int32]
    lengths: Integers
    human: Ragged
    given: Mapping[str, GivenTable] = field(repr=False)
    features: npt.NDArray[np.float32] | None = None

    def __len__(self) -> int:
        return len(self.ids)


def learn_vocabulary(images: Sequence[CaptionedImage], recipe: CriticRecipe) -> CriticVocabulary:
    """The words of the human captions (A.2)."""
    pool = SentencePool([caption for image in images for caption in image.human])
    return CriticVocabulary.from_counts(count_words(tokenise_captions(pool, False)), recipe.words, recipe.least)


def as_examples(
    images: Sequence[CaptionedImage],
    vocabulary: CriticVocabulary,
    features: FeatureFile | None = None,
    steps: int = MAX_WORDS,
) -> ImageExamples:
    """The images as numbers; captions are read as the metric reads them.

    Args:
        images: with human and machine captions.
        vocabulary: word → number.
        features: of the images; None: the critic sees none.
        steps: number of words of a caption that are read.

    Raises:
        InputError: an image has fewer than two human captions, or none is given.
    """
    poor_ids = [image.id for image in images if len(image.human) < 2]
    if poor_ids:
        have = format_count(len(poor_ids), "image has", "images have")
        raise InputError(
            f"{have} fewer than two human captions (the first: {', '.join(poor_ids[:5])}); one is the "
            "reference and another the positive example, so leave these images out"
        )
    for image in images:
        if any(len({*each.read, each.of} - {-1}) >= len(image.human) for each in (*image.machine, *image.samples)):
            raise InputError(
                f"image {image.id}: a machine caption was written after reading all {len(image.human)} human captions; "
                "it needs one that the machine had not read as its reference"
            )
    if len(images) < 2:
        raise InputError(f"expected at least two images to train on, but got {len(images)}")
    row: dict[str, int] = {}

    def rows(captions: Iterable[Sequence[str]]) -> Ragged:
        return Ragged.from_rows(
            [[row.setdefault(each, len(row)) for each in image_captions] for image_captions in captions], np.int64
        )

    def table(given_captions: Sequence[Sequence[MachineText]]) -> GivenTable:
        read_bits = [
            sum(1 << caption_index for caption_index in each.read if caption_index < _MOST_READ)
            for image_captions in given_captions
            for each in image_captions
        ]
        original_indices = np.array([each.of for image_captions in given_captions for each in image_captions], np.int64)
        return GivenTable(
            rows([each.caption for each in image_captions] for image_captions in given_captions),
            np.array(read_bits, np.int64),
            original_indices,
        )

    human = rows(image.human for image in images)
    tables = {MACHINE: table([image.machine for image in images]), SAMPLES: table([image.samples for image in images])}
    word_numbers = vocabulary.encode_table(tokenise_captions(SentencePool(list(row)), False), steps)
    windows = np.full((len(word_numbers), steps), PAD, np.int32)
    lengths = word_numbers.lengths
    windows[np.arange(steps) < lengths[:, None]] = word_numbers.values
    ids = tuple(image.id for image in images)
    return ImageExamples(ids, windows, lengths, human, tables, None if features is None else features.features(ids))
