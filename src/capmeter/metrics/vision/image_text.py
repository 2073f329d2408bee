"""What metrics on captions and images share: unit vectors of both by a joint encoder, notes, and the signature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.settings import Settings
from capmeter.encoders.handle import find_joint_encoder
from capmeter.encoders.joint.encoder import load_joint_encoder
from capmeter.evaluation.base import Floats, MeanMetric, RunContext, merge_notes, note_truncated
from capmeter.images.joint_features import JointFeatures, JointFeatureTable

PREFIX = "A photo depicts"
"""CLIPScore's prompt, before every caption."""


@dataclass(frozen=True, eq=False)
class EncodedCaptions:
    """Unit vectors of n captions with m references in all, and notes on truncated sentences and converted images."""

    candidates: Floats  # (n, width)
    references: Floats  # (m, width), flat as `part.references.values`; empty if they are not encoded
    images: Floats  # (n, width)
    notes: dict[str, list[str]]

    @classmethod
    def encode(
        cls,
        part: CaptionSet,
        encoder: str,
        prefix: str,
        settings: Settings,
        *,
        projection: str = "",
        references: bool = False,
    ) -> EncodedCaptions:
        """The vectors of these captions; each distinct sentence and image is encoded once.

        Args:
            part: the captions.
            encoder: alias, hub id or folder of a joint encoder.
            prefix: text before every sentence.
            settings: device, precision and cache.
            projection: a checkpoint that replaces the encoder's projections.
            references: whether to encode references too.
        """
        encoder_handle, caption_count = find_joint_encoder(encoder), len(part)
        joint_encoder = load_joint_encoder(encoder_handle, settings, projection)
        sentence_indices = np.concatenate([part.candidates, part.references.values]) if references else part.candidates
        distinct_sentences, inverse = np.unique(sentence_indices, return_inverse=True)
        piece_table = joint_encoder.pieces([add_prefix(prefix, part.pool[k]) for k in distinct_sentences.tolist()])
        sentence_vectors = normalise_rows(joint_encoder.text_features(piece_table))[inverse]
        truncated = piece_table.truncated[inverse]
        feature_table: JointFeatureTable = part.image_pool.analyse(JointFeatures(encoder_handle, projection, settings))
        too_long = note_truncated(part, truncated[:caption_count], truncated[caption_count:] if references else None)
        notes = merge_notes([too_long, note_conversions(part, feature_table.notes)])
        image_vectors = normalise_rows(feature_table.features)[part.image_indices]
        return cls(sentence_vectors[:caption_count], sentence_vectors[caption_count:], image_vectors, notes)


def add_prefix(prefix: str, sentence: str) -> str:
    """The sentence after the prefix, with a space between them as in the released code."""
    return sentence if not prefix else f"{prefix}{'' if prefix.endswith(' ') else ' '}{sentence}"


def normalise_rows(features: NDArray[np.float32]) -> Floats:
    """The rows (n, width) scaled to length 1, in float64."""
    wide = features.astype(np.float64)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    return wide / np.where(lengths > 0, lengths, 1.0)


def row_cosines(one: Floats, other: Floats) -> Floats:
    """The dot products of corresponding unit vectors (n, width): (n,)."""
    cosines: Floats = np.einsum("nd,nd->n", one, other)
    return cosines


def note_conversions(part: CaptionSet, notes: tuple[tuple[str, ...], ...]) -> dict[str, list[str]]:
    """Notes on captions (reason → ids) from the conversions of each image."""
    ids_by_reason: dict[str, list[str]] = {}
    for id, image_index in zip(part.ids, part.image_indices.tolist(), strict=True):
        for note in notes[image_index]:
            ids_by_reason.setdefault(f"image: {note}", []).append(id)
    return ids_by_reason


@dataclass(frozen=True, kw_only=True)
class ImageTextMetric(MeanMetric):
    """The base of metrics on captions and images by a joint encoder."""

    EXTRA: ClassVar[str | None] = "vision"
    MAX_WORDS: ClassVar[int | None] = 55  # CLIP reads 77 word pieces
    needs: ClassVar[frozenset[str]] = frozenset({"image"})
    FAMILY: ClassVar[str] = "With the picture"
    MISLEADS: ClassVar[str] = (
        "Sees what is in the image but hardly how it is arranged: counts, relations and word order matter little. "
        "Text beyond what the encoder reads (CLIP: 77 word pieces) is not read."
    )
    GUIDE: ClassVar[str] = "docs/images.md"

    encoder: Annotated[str, "alias, hub id or folder of a joint encoder"]

    @property
    def projection(self) -> str:
        """A checkpoint that replaces the encoder's projections; none here."""
        return ""

    def encode(self, part: CaptionSet, prefix: str, settings: Settings, *, references: bool = False) -> EncodedCaptions:
        """The vectors of captions and images, and of references if asked for.

        Args:
            part: the captions.
            prefix: what precedes each caption.
            settings: where the encoder runs.
            references: whether they are encoded too.
        """
        return EncodedCaptions.encode(
            part, self.encoder, prefix, settings, projection=self.projection, references=references
        )

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The weights, the preprocessing, the libraries and the precision."""
        return load_joint_encoder(find_joint_encoder(self.encoder), context.settings, self.projection).signature_facts()
