"""The inputs of an InfoMetIC head for a set of captions: states of every distinct image and sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.settings import Settings
from capmeter.encoders.joint.states import ImageStates, SentenceStates, StateEncoder
from capmeter.evaluation.base import merge_notes
from capmeter.images.analyses import ContentHashes, ContentHashTable
from capmeter.images.joint_features import ImageReader
from capmeter.metrics.notes import note_truncated
from capmeter.metrics.vision.image_text import add_prefix, note_conversions

if TYPE_CHECKING:
    from capmeter.metrics.learned.regressor.network import HeadInputs

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class CaptionImageStates:
    """The states of n captions: caption i is the sentence `sentence[i]` of the image `image[i]`."""

    images: ImageStates
    image: Rows  # (n,)
    sentences: SentenceStates
    sentence: Rows  # (n,)
    notes: dict[str, list[str]]

    @classmethod
    def of(cls, part: CaptionSet, encoder: StateEncoder, prefix: str, settings: Settings) -> CaptionImageStates:
        """The states of these captions; each distinct image and sentence is encoded once.

        Raises:
            InputError: images cannot be read; the first are named.
        """
        contents: ContentHashTable = part.image_pool.analyse(ContentHashes())
        distinct, image = np.unique(contents.first, return_inverse=True)
        reader = ImageReader([part.image_pool[k] for k in distinct.tolist()], encoder.preprocessing)
        images = encoder.images(len(distinct), reader.pixels)
        reader.check()
        used, sentence = np.unique(part.candidates, return_inverse=True)
        sentences = encoder.sentences([part.pool[k] for k in used.tolist()], add_prefix(prefix, ""))
        conversions = reader.notes([contents.hashes[k] for k in distinct.tolist()], settings)
        converted = note_conversions(part, tuple(conversions[k] for k in image.tolist()))
        notes = merge_notes([note_truncated(part, sentences.truncated[sentence]), converted])
        of_caption = image[part.image_indices].astype(np.int64)
        return cls(images, of_caption, sentences, sentence.astype(np.int64), notes)

    def batch(self, rows: Rows, device: str) -> HeadInputs:
        """The network's inputs for these captions, pieces padded to the longest."""
        import torch

        from capmeter.metrics.learned.regressor.network import HeadInputs

        image, sentence, states = self.image[rows], self.sentence[rows], self.sentences
        sentences = sentence.tolist()
        longest = max(1, *(len(states.states[k]) for k in sentences))
        mask = np.zeros((len(rows), longest), np.bool_)
        for row, k in enumerate(sentences):
            mask[row, : len(states.states[k])] = True
        arrays = (
            self.images.features[image],
            self.images.regions[image],
            self.images.mask[image],
            states.features[sentence],
            *(
                _pad(values, sentences, longest)
                for values in (states.states, states.projections, states.region_weights)
            ),
            mask,
        )
        return HeadInputs(*(torch.from_numpy(array).to(device) for array in arrays))

    def batches(self, size: int) -> Iterator[Rows]:
        """The rows of all captions in batches of similar length."""
        lengths = np.array([len(each) for each in self.sentences.states], np.int64)[self.sentence]
        order = np.argsort(lengths, kind="stable").astype(np.int64)
        yield from (order[start : start + size] for start in range(0, len(order), size))


def _pad(values: Sequence[NDArray[np.float32]], sentences: Sequence[int], longest: int) -> NDArray[np.float32]:
    """The values of these sentences, (n, longest, width), with 0 after the last piece."""
    padded = np.zeros((len(sentences), longest, values[0].shape[1]), np.float32)
    for row, k in enumerate(sentences):
        padded[row, : len(values[k])] = values[k]
    return padded
