"""What metrics on pictures share: features of a part's pictures and sentences, cosines, notes and facts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capmeter.captions.model import CaptionSet
from capmeter.encoders.joint import JointEncoder, load_joint
from capmeter.encoders.pieces import PieceTable
from capmeter.images.features import FeatureTable, PictureFeatures
from capmeter.metrics.base import Floats
from capmeter.settings import Settings

Indices = NDArray[np.int64]
PREFIX = "A photo depicts"
"""What CLIPScore puts before every caption."""


@dataclass(frozen=True, eq=False)
class SentenceFeatures:
    """Unit vectors of some sentences of a pool, each encoded once. `truncated`: which were cut."""

    vectors: Floats
    truncated: NDArray[np.bool_]
    _place: Indices

    def __getitem__(self, sentences: NDArray[np.integer]) -> Floats:
        """The vectors of these sentences of the pool, [..., width]."""
        vectors: Floats = self.vectors[self._place[sentences]]
        return vectors

    def cut(self, sentences: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Which of these sentences were cut."""
        truncated: NDArray[np.bool_] = self.truncated[self._place[sentences]]
        return truncated

    @classmethod
    def of(
        cls, part: CaptionSet, sentences: NDArray[np.integer], encoder: JointEncoder, prefix: str
    ) -> SentenceFeatures:
        """The vectors of these sentences of the part, with the prefix before each."""
        used = np.unique(sentences)
        place = np.full(len(part.pool), -1, np.int64)
        place[used] = np.arange(len(used))
        pieces: PieceTable = encoder.pieces([prefixed(prefix, part.pool[k]) for k in used.tolist()])
        return cls(unit(encoder.text_features(pieces)), pieces.truncated, place)


def prefixed(prefix: str, sentence: str) -> str:
    """The sentence after the prefix, with a blank between them as in the released code."""
    return sentence if not prefix else f"{prefix}{'' if prefix.endswith(' ') else ' '}{sentence}"


def unit(features: NDArray[np.float32]) -> Floats:
    """The features normalised to length 1, in float64."""
    wide = features.astype(np.float64)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    return wide / np.where(lengths > 0, lengths, 1.0)


def encoder_of(name: str, settings: Settings, projection: str = "") -> JointEncoder:
    """The joint encoder of this name."""
    return load_joint(name, settings, projection)


def picture_vectors(
    part: CaptionSet, encoder: str, settings: Settings, projection: str = ""
) -> tuple[Floats, dict[str, list[str]]]:
    """The unit vector of each caption's picture, [captions, width], and notes on how pictures were converted."""
    table: FeatureTable = part.pictures.analyse(PictureFeatures(encoder, projection, settings))
    return unit(table.features)[part.image], conversion_notes(part, table.notes)


def conversion_notes(part: CaptionSet, notes: tuple[tuple[str, ...], ...]) -> dict[str, list[str]]:
    """Notes on captions from the notes on their pictures: reason → ids."""
    found: dict[str, list[str]] = {}
    for id, picture in zip(part.ids, part.image.tolist(), strict=True):
        for note in notes[picture]:
            found.setdefault(f"picture: {note}", []).append(id)
    return found


def blank(part: CaptionSet) -> NDArray[np.bool_]:
    """Which candidates are empty."""
    return np.array([not part.pool[k].strip() for k in part.candidates.tolist()], np.bool_)


def cut_note(part: CaptionSet, rows: NDArray[np.bool_]) -> dict[str, list[str]]:
    """A note of the captions that are too long for the encoder."""
    return {"cut": [part.ids[row] for row in np.flatnonzero(rows).tolist()]} if rows.any() else {}
