"""The inputs of a regression head for a set of captions, from a joint encoder, a text encoder or both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import AssetError
from capmeter.core.messages import list_names
from capmeter.core.settings import Settings
from capmeter.encoders import SentenceVectors, find_encoder, load_encoder
from capmeter.encoders.handle import EncoderHandle, find_joint_encoder
from capmeter.evaluation.base import Floats
from capmeter.metrics.embedding.word_pieces import note_sentences
from capmeter.metrics.vision.image_text import PREFIX, EncodedCaptions, normalise_rows
from capmeter_research.papers.infometic.head import SHAPES, Shape, joint_inputs


@dataclass(frozen=True, eq=False)
class RegressorInputs:
    """One row of inputs per candidate and reference (per candidate without references)."""

    values: Floats  # (n, k)
    rows: NDArray[np.int64]  # (n,), the caption of each
    notes: dict[str, list[str]]


@dataclass(frozen=True)
class InputSpec:
    """What a head reads.

    Attributes:
        shape: of the head.
        encoder: alias, hub id or folder of the joint encoder; of the text encoder for the shape `text`.
        prefix: text before every sentence, except for the shape `text`.
        text_encoder: alias, hub id or folder; empty for none.
    """

    shape: Shape
    encoder: str
    prefix: str = PREFIX
    text_encoder: str = ""

    @property
    def cosine_count(self) -> int:
        """The number of inputs that are cosines."""
        return 1 if self.shape in ("pair", "text") else 3 if self.text_encoder else 2

    @property
    def reads_references(self) -> bool:
        """Whether every caption needs references."""
        return self.shape in ("polos", "text")

    @property
    def handle(self) -> EncoderHandle:
        """The encoder."""
        return find_encoder(self.encoder) if self.shape == "text" else find_joint_encoder(self.encoder)

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> InputSpec:
        """The inputs that a checkpoint names; an `AssetError` if it names none."""
        field_names = ("shape", "encoder", "prefix", "text_encoder")
        missing_names = [field_name for field_name in field_names if not isinstance(parameters.get(field_name), str)]
        if missing_names:
            raise AssetError(f"regressor: the checkpoint has no text {list_names(missing_names)}; train it again")
        input_spec = cls(**{field_name: parameters[field_name] for field_name in field_names})
        if input_spec.shape not in SHAPES:
            raise AssetError(
                f"regressor: the checkpoint's shape is {input_spec.shape!r}; expected one of {', '.join(SHAPES)}"
            )
        return input_spec

    def to_parameters(self) -> dict[str, str]:
        """The parameters of a checkpoint."""
        return {field_name: str(value) for field_name, value in asdict(self).items()}

    def compute(self, part: CaptionSet, settings: Settings) -> RegressorInputs:
        """The inputs of every caption; each distinct image and sentence is encoded once."""
        if self.shape == "text":
            notes = note_sentences(part, self.handle, settings)
            return RegressorInputs(joint_inputs(*_reference_vectors(part, self.handle, settings)), _rows(part), notes)
        with_references = self.reads_references
        encoded = EncodedCaptions.encode(part, self.encoder, self.prefix, settings, references=with_references)
        if not with_references:
            input_values = joint_inputs(encoded.images, encoded.candidates)
            return RegressorInputs(input_values, np.arange(len(part)), encoded.notes)
        reference_rows, text_vectors = _rows(part), None
        if self.text_encoder:
            references, candidates = _reference_vectors(part, find_encoder(self.text_encoder), settings)
            text_vectors = candidates, references
        input_values = joint_inputs(
            encoded.images[reference_rows], encoded.candidates[reference_rows], encoded.references, text_vectors
        )
        return RegressorInputs(input_values, reference_rows, encoded.notes)


def _rows(part: CaptionSet) -> NDArray[np.int64]:
    """The caption of each reference."""
    return part.references.rows.astype(np.int64)


def _reference_vectors(part: CaptionSet, encoder: EncoderHandle, settings: Settings) -> tuple[Floats, Floats]:
    """Unit sentence vectors of each reference and of its candidate."""
    layer = load_encoder(encoder, settings).layers
    sentence_vectors = normalise_rows(part.pool.analyse(SentenceVectors(encoder, layer, settings)))
    return sentence_vectors[part.references.values], sentence_vectors[part.candidates[_rows(part)]]
