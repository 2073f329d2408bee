"""What a head of InfoMetIC's shape reads of the captions of a set: states of every distinct picture and sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from capmeter.captions.model import CaptionSet
from capmeter.encoders.states import PictureStates, SentenceStates, StateEncoder
from capmeter.images.analyses import Contents, ContentTable
from capmeter.images.features import PictureReader
from capmeter.metrics.base import merged_notes
from capmeter.metrics.image_text import conversion_notes, cut_note, prefixed
from capmeter.settings import Settings

if TYPE_CHECKING:
    from capmeter.metrics.regressor.network import Batch

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class States:
    """The states of some captions: caption i is the sentence `said[i]` of the picture `seen[i]`; notes on both."""

    pictures: PictureStates
    seen: Rows
    sentences: SentenceStates
    said: Rows
    notes: dict[str, list[str]]

    @classmethod
    def of(cls, part: CaptionSet, encoder: StateEncoder, prefix: str, settings: Settings) -> States:
        """The states of these captions; each distinct picture and sentence is encoded once.

        Raises:
            InputError: pictures cannot be read; the first are named.
        """
        contents: ContentTable = part.pictures.analyse(Contents())
        distinct, place = np.unique(contents.first, return_inverse=True)
        reader = PictureReader([part.pictures[k] for k in distinct.tolist()], encoder.preprocessing)
        pictures = encoder.pictures(len(distinct), reader.pixels)
        reader.check()
        sentences, said = np.unique(part.candidates, return_inverse=True)
        found = encoder.sentences([part.pool[k] for k in sentences.tolist()], prefixed(prefix, ""))
        notes = reader.notes([contents.hashes[k] for k in distinct.tolist()], settings)
        converted = conversion_notes(part, tuple(notes[k] for k in place.tolist()))
        return cls(
            pictures,
            place[part.image].astype(np.int64),
            found,
            said.astype(np.int64),
            merged_notes([cut_note(part, found.truncated[said]), converted]),
        )

    def batch(self, rows: Rows, device: str) -> Batch:
        """These captions as the network reads them; pieces are padded to the longest."""
        import torch

        from capmeter.metrics.regressor.network import Batch

        sentences = self.said[rows].tolist()
        longest = max(1, *(len(self.sentences.pieces[k]) for k in sentences))
        said = np.zeros((len(rows), longest), np.bool_)
        for row, k in enumerate(sentences):
            said[row, : len(self.sentences.pieces[k])] = True
        seen = self.seen[rows]
        arrays = (
            self.pictures.features[seen],
            self.pictures.regions[seen],
            self.pictures.there[seen],
            self.sentences.features[self.said[rows]],
            *(_padded(each, sentences, longest) for each in self._of_pieces),
            said,
        )
        return Batch(*(torch.from_numpy(each).to(device) for each in arrays))

    @property
    def _of_pieces(self) -> tuple[tuple[NDArray[np.float32], ...], ...]:
        return self.sentences.pieces, self.sentences.says, self.sentences.about

    def batches(self, size: int) -> Iterator[Rows]:
        """All captions in batches, those with as many pieces together."""
        lengths = np.array([len(each) for each in self.sentences.pieces], np.int64)[self.said]
        order = np.argsort(lengths, kind="stable").astype(np.int64)
        yield from (order[start : start + size] for start in range(0, len(order), size))


def _padded(values: Sequence[NDArray[np.float32]], chosen: Sequence[int], longest: int) -> NDArray[np.float32]:
    """The values of the chosen sentences, [n, longest, width], with 0 after the last piece."""
    made = np.zeros((len(chosen), longest, values[0].shape[1]), np.float32)
    for row, k in enumerate(chosen):
        made[row, : len(values[k])] = values[k]
    return made
