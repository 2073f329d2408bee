"""BLIP's image-text matching (Li et al. 2022): the probability that a caption describes its picture.

    score = softmax(W E(c, v))_match            E: the text encoder, whose layers attend to the picture's patches

0 to 1. `head=itc` is the cosine of caption and picture, each encoded alone (-1 to 1). An empty candidate scores 0.
Captions over `length` word pieces are cut before the end token and listed in the notes under `cut`; 35 is the released
code's limit. Each picture goes through its network once for all its captions.

Li, Li, Xiong, Hoi: BLIP: Bootstrapping Language-Image Pre-training for Unified Vision-Language Understanding and
Generation. ICML 2022.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from capmeter.captions.model import CaptionSet
from capmeter.encoders.matching import load_match
from capmeter.encoders.pieces import PieceTable
from capmeter.errors import InputError
from capmeter.images.analyses import Contents, ContentTable
from capmeter.images.features import PictureReader
from capmeter.metrics.base import Context, Floats, MeanMetric, Measurement, merged_notes
from capmeter.metrics.image_text import blank, conversion_notes, cut_note
from capmeter.settings import Settings
from capmeter.store import store_of


@dataclass(frozen=True, kw_only=True)
class BlipItm(MeanMetric):
    """The probability of a match by BLIP."""

    NAME: ClassVar[str] = "blip-itm"
    SUMMARY: ClassVar[str] = "BLIP's image-text matching"
    EXTRA: ClassVar[str | None] = "vision"

    encoder: Annotated[str, "alias, hub id or folder of BLIP for image-text retrieval"] = "blip"
    head: Annotated[Literal["itm", "itc"], "read both together (itm), or the cosine of both alone (itc)"] = "itm"
    length: Annotated[int, "most word pieces of a caption, begin and end included"] = 35

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.length < 3:
            raise InputError(f"blip-itm: expected a length of 3 or more, but got {self.length}")

    @property
    def needs(self) -> frozenset[str]:
        """A picture."""
        return frozenset({"image"})

    @property
    def columns(self) -> tuple[str, ...]:
        """The score."""
        return ("score",)

    def measure(self, part: CaptionSet, context: Context) -> Measurement:
        """The score of each caption."""
        encoder = load_match(self.encoder, context.settings)
        contents: ContentTable = part.pictures.analyse(Contents())
        distinct, place = np.unique(contents.first, return_inverse=True)
        hashes = [contents.hashes[k] for k in distinct.tolist()]
        reader = PictureReader([part.pictures[k] for k in distinct.tolist()], encoder.preprocessing)
        sentences, said = np.unique(part.candidates, return_inverse=True)
        pieces = encoder.pieces([part.pool[k] for k in sentences.tolist()], self.length)
        pairs, pair = np.unique(np.stack([place[part.image], said], axis=1), axis=0, return_inverse=True)
        scores = self._pair_scores(pairs, pieces, hashes, reader, context.settings)[pair.reshape(-1)]
        scores[blank(part)] = 0.0
        notes = reader.notes(hashes, context.settings)
        of_picture = conversion_notes(part, tuple(notes[k] for k in place.tolist()))
        return Measurement(scores[:, None], merged_notes([cut_note(part, pieces.truncated[said]), of_picture]))

    def _pair_scores(
        self, pairs: NDArray[np.int64], pieces: PieceTable, hashes: list[str], reader: PictureReader, settings: Settings
    ) -> Floats:
        """The score of each pair (picture, sentence): those in the store, and the others computed and kept."""
        encoder = load_match(self.encoder, settings)
        space = f"match {self.head} {' '.join(encoder.facts().values())}"
        contents = [_content(hashes[picture], pieces[sentence]) for picture, sentence in pairs.tolist()]
        scores = np.zeros(len(pairs))
        store = store_of(settings)
        known = {} if store is None else store.get(space, contents)
        missing = np.array([row for row, each in enumerate(contents) if each not in known], np.int64)
        for row, content in enumerate(contents):
            scores[row] = known.get(content, 0.0)
        for rows, found in encoder.match(pairs[missing], pieces, reader.pixels, self.head):
            scores[missing[rows]] = found
            if store is not None:
                store.put(space, {contents[missing[k]]: float(each) for k, each in zip(rows, found, strict=True)})
        reader.check()
        return scores

    def facts(self, context: Context) -> dict[str, str]:
        """The weights, the preprocessing, the libraries and the precision."""
        return load_match(self.encoder, context.settings).facts()


def _content(picture: str, sentence: NDArray[np.int32]) -> bytes:
    """What a pair's score is kept under."""
    return hashlib.sha256(bytes.fromhex(picture) + sentence.tobytes()).digest()
