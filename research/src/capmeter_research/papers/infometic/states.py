"""The inputs of an InfoMetIC head for a set of captions: states of every distinct image and sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.settings import Settings
from capmeter.evaluation.base import merge_notes, note_truncated
from capmeter.images.joint_features import ImageReader
from capmeter.images.reading import ContentHashes, ContentHashTable
from capmeter.metrics.vision.image_text import add_prefix, note_conversions
from capmeter_research.papers.infometic.joint_states import ImageStates, SentenceStates, StateEncoder

if TYPE_CHECKING:
    from capmeter_research.papers.infometic.network import HeadInputs

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
    def from_captions(
        cls, part: CaptionSet, encoder: StateEncoder, prefix: str, settings: Settings
    ) -> CaptionImageStates:
        """The states of captions; each distinct image and sentence is encoded once.

        Args:
            part: the captions.
            encoder: of images and sentences.
            prefix: of each sentence, such as CLIPScore's.
            settings: where it runs.

        Raises:
            InputError: images cannot be read; the first are named.
        """
        hash_table: ContentHashTable = part.image_pool.analyse(ContentHashes())
        distinct_images, image_rows = np.unique(hash_table.first, return_inverse=True)
        reader = ImageReader([part.image_pool[k] for k in distinct_images.tolist()], encoder.preprocessing)
        image_states = encoder.images(len(distinct_images), reader.pixels)
        reader.check()
        distinct_sentences, sentence_rows = np.unique(part.candidates, return_inverse=True)
        sentence_states = encoder.sentences([part.pool[k] for k in distinct_sentences.tolist()], add_prefix(prefix, ""))
        conversions = reader.notes([hash_table.hashes[k] for k in distinct_images.tolist()], settings)
        converted = note_conversions(part, tuple(conversions[k] for k in image_rows.tolist()))
        notes = merge_notes([note_truncated(part, sentence_states.truncated[sentence_rows]), converted])
        of_caption = image_rows[part.image_indices].astype(np.int64)
        return cls(image_states, of_caption, sentence_states, sentence_rows.astype(np.int64), notes)

    def batch(self, rows: Rows, device: str) -> HeadInputs:
        """The network's inputs for these captions, pieces padded to the longest."""
        import torch

        from capmeter_research.papers.infometic.network import HeadInputs

        image_rows, sentence_rows, sentence_states = self.image[rows], self.sentence[rows], self.sentences
        sentence_indices = sentence_rows.tolist()
        longest = max(1, *(len(sentence_states.states[k]) for k in sentence_indices))
        piece_mask = np.zeros((len(rows), longest), np.bool_)
        for row, k in enumerate(sentence_indices):
            piece_mask[row, : len(sentence_states.states[k])] = True
        arrays = (
            self.images.features[image_rows],
            self.images.regions[image_rows],
            self.images.mask[image_rows],
            sentence_states.features[sentence_rows],
            *(
                _pad(values, sentence_indices, longest)
                for values in (sentence_states.states, sentence_states.projections, sentence_states.region_weights)
            ),
            piece_mask,
        )
        return HeadInputs(*(torch.from_numpy(array).to(device) for array in arrays))

    def batches(self, size: int) -> Iterator[Rows]:
        """The rows of all captions in batches of similar length."""
        lengths = np.array([len(piece_states) for piece_states in self.sentences.states], np.int64)[self.sentence]
        length_order = np.argsort(lengths, kind="stable").astype(np.int64)
        yield from (length_order[batch_start : batch_start + size] for batch_start in range(0, len(length_order), size))


def _pad(values: Sequence[NDArray[np.float32]], sentences: Sequence[int], longest: int) -> NDArray[np.float32]:
    """The values of these sentences, (n, longest, width), with 0 after the last piece."""
    padded = np.zeros((len(sentences), longest, values[0].shape[1]), np.float32)
    for row, sentence_index in enumerate(sentences):
        padded[row, : len(values[sentence_index])] = values[sentence_index]
    return padded
