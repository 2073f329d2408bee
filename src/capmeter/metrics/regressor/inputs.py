"""The inputs of a regression head for the captions of a set: from a joint encoder, and perhaps a text encoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capmeter.captions.model import CaptionSet
from capmeter.encoders import SentenceVectors, load_encoder
from capmeter.encoders.joint import load_joint
from capmeter.errors import AssetError
from capmeter.images.features import FeatureTable, PictureFeatures
from capmeter.metrics.base import Floats, merged_notes
from capmeter.metrics.image_text import PREFIX, conversion_notes, cut_note, prefixed, unit
from capmeter.metrics.regressor.head import SHAPES, Shape, joint_inputs
from capmeter.settings import Settings


@dataclass(frozen=True, eq=False)
class Read:
    """A row of inputs for each candidate and reference: `values` [n, k], of the caption `rows` [n]; notes."""

    values: Floats
    rows: NDArray[np.int64]
    notes: dict[str, list[str]]


@dataclass(frozen=True)
class Inputs:
    """What a head reads: its shape, the joint encoder, the text before sentences, and a text encoder or none ("")."""

    shape: Shape
    encoder: str
    prefix: str = PREFIX
    text_encoder: str = ""

    @property
    def cosines(self) -> int:
        """How many of the first inputs are cosines."""
        return 1 if self.shape == "pair" else 3 if self.text_encoder else 2

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Inputs:
        """The inputs that a checkpoint names; an `AssetError` if it names none."""
        try:
            found = cls(**{name: str(parameters[name]) for name in ("shape", "encoder", "prefix", "text_encoder")})  # type: ignore[arg-type]
        except KeyError as missing:
            raise AssetError(f"regressor: the checkpoint has no {missing}; train it again") from None
        if found.shape not in SHAPES:
            raise AssetError(
                f"regressor: the checkpoint's shape is {found.shape!r}; expected one of {', '.join(SHAPES)}"
            )
        return found

    def to_parameters(self) -> dict[str, str]:
        """The inputs as a checkpoint names them."""
        return {name: str(value) for name, value in asdict(self).items()}

    def with_encoder(self, encoder: str) -> Inputs:
        """The same with the joint encoder in another place."""
        return replace(self, encoder=encoder)

    def of(self, part: CaptionSet, settings: Settings) -> Read:
        """The inputs of every caption; each distinct picture and sentence is encoded once."""
        encoder = load_joint(self.encoder, settings)
        table: FeatureTable = part.pictures.analyse(PictureFeatures(self.encoder, "", settings))
        pictures = unit(table.features)[part.image]
        with_references = self.shape == "polos"
        used = np.concatenate([part.candidates, part.references.values]) if with_references else part.candidates
        sentences, place = np.unique(used, return_inverse=True)
        pieces = encoder.pieces([prefixed(self.prefix, part.pool[k]) for k in sentences.tolist()])
        texts = unit(encoder.text_features(pieces))[place]
        candidates = texts[: len(part)]
        long = pieces.truncated[place[: len(part)]].copy()
        if not with_references:
            values, rows = joint_inputs(pictures, candidates), np.arange(len(part))
        else:
            rows = part.references.rows.astype(np.int64)
            np.logical_or.at(long, rows, pieces.truncated[place[len(part) :]])
            own = None
            if self.text_encoder:
                layer = load_encoder(self.text_encoder, settings).layers
                vectors = unit(part.pool.analyse(SentenceVectors(self.text_encoder, layer, settings)))
                own = vectors[part.candidates[rows]], vectors[part.references.values]
            values = joint_inputs(pictures[rows], candidates[rows], texts[len(part) :], own)
        notes = merged_notes([cut_note(part, long), conversion_notes(part, table.notes)])
        return Read(values, rows, notes)
