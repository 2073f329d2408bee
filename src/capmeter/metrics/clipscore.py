"""CLIPScore and RefCLIPScore (Hessel et al. 2021): how well a caption fits its picture, by CLIP.

    CLIP-S(c, v)       = w max(cos(T("A photo depicts " + c), V(v)), 0)                              w = 2.5
    RefCLIP-S(c, R, v) = H(CLIP-S(c, v), max(max_{r ∈ R} cos(T(c), T(r)), 0))      H: the harmonic mean

V and T are CLIP's encoders of pictures and of text; the prefix is before references too. CLIP-S is 0 to 2.5, in
practice .4 to 1; RefCLIP-S is 0 to 1.43. An empty candidate scores 0. Captions over CLIP's 77 tokens are cut before the
end token and listed in the notes under `cut`.

Other tools' numbers are the same metric with other parameters: torchmetrics' is `clipscore(scale=100.0,prefix="",
clamp=false)` (it clamps the corpus mean only), the raw cosine `clipscore(scale=1.0,clamp=false)`. `encoder` is any CLIP
or SigLIP model: an alias, a hub id or a folder; the paper's is `clip` (ViT-B/32). Numbers are float32, as the released
code's on a CPU; on a GPU that code uses float16, which moves the third digit.

The released code does not clamp the cosine with references as the paper's formula does, and turns no picture by its
EXIF orientation (docs/pictures.md).

>>> str(ClipScore(scale=100.0, prefix="", clamp=False))
'clipscore(scale=100.0,prefix="",clamp=false)'

Hessel, Holtzman, Forbes, Le Bras, Choi: CLIPScore: A Reference-free Evaluation Metric for Image Captioning. EMNLP 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from capmeter.captions.model import CaptionSet
from capmeter.errors import InputError
from capmeter.metrics.base import Context, Floats, MeanMetric, Measurement, merged_notes
from capmeter.metrics.image_text import (
    PREFIX,
    SentenceFeatures,
    blank,
    cut_note,
    encoder_of,
    picture_vectors,
)


@dataclass(frozen=True, kw_only=True)
class ImageTextScore(MeanMetric):
    """The cosine of caption and picture in a joint encoder, clamped and scaled."""

    EXTRA: ClassVar[str | None] = "vision"
    ROWS: ClassVar[int] = 8192

    encoder: Annotated[str, "alias, hub id or folder of a CLIP or SigLIP model"] = "clip"
    scale: Annotated[float, "w, the factor of the cosine"] = 2.5
    prefix: Annotated[str, "what is put before every sentence"] = PREFIX
    clamp: Annotated[bool, "whether a negative cosine counts as 0"] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scale <= 0:
            raise InputError(f"{self.name}: expected a scale above 0, but got {self.scale}")

    @property
    def needs(self) -> frozenset[str]:
        """A picture."""
        return frozenset({"image"})

    @property
    def columns(self) -> tuple[str, ...]:
        """The score."""
        return ("score",)

    @property
    def projection(self) -> str:
        """A checkpoint that replaces the encoder's projections; none here."""
        return ""

    def measure(self, part: CaptionSet, context: Context) -> Measurement:
        """The score of each caption."""
        encoder = encoder_of(self.encoder, context.settings, self.projection)
        pictures, notes = picture_vectors(part, self.encoder, context.settings, self.projection)
        texts = SentenceFeatures.of(part, part.candidates, encoder, self.prefix)
        scores = self.scores(texts[part.candidates], pictures)
        scores[blank(part)] = 0.0
        return Measurement(scores[:, None], merged_notes([cut_note(part, texts.cut(part.candidates)), notes]))

    def scores(self, texts: Floats, pictures: Floats) -> Floats:
        """The score of each pair of unit vectors [n, width]."""
        cosine: Floats = np.einsum("nd,nd->n", texts, pictures)
        return self.scale * (np.maximum(cosine, 0.0) if self.clamp else cosine)

    def facts(self, context: Context) -> dict[str, str]:
        """The weights, the preprocessing, the libraries and the precision."""
        return encoder_of(self.encoder, context.settings, self.projection).facts()


@dataclass(frozen=True, kw_only=True)
class ReferencedScore(ImageTextScore):
    """The harmonic mean of the cosine with the picture and the largest cosine with a reference."""

    @property
    def needs(self) -> frozenset[str]:
        """A picture and references."""
        return frozenset({"image", "references"})

    @property
    def columns(self) -> tuple[str, ...]:
        """The score, and its two sides."""
        return "score", "image", "references"

    def measure(self, part: CaptionSet, context: Context) -> Measurement:
        """The score of each caption, and both sides of the harmonic mean."""
        encoder = encoder_of(self.encoder, context.settings, self.projection)
        pictures, notes = picture_vectors(part, self.encoder, context.settings, self.projection)
        used = np.concatenate([part.candidates, part.references.values])
        texts = SentenceFeatures.of(part, used, encoder, self.prefix)
        image = self.scores(texts[part.candidates], pictures)
        owners = part.references.rows
        cosines = np.einsum("nd,nd->n", texts[part.candidates[owners]], texts[part.references.values])
        best = np.maximum(np.maximum.reduceat(cosines, part.references.offsets[:-1]), 0.0)
        values = np.stack([harmonic_mean(image, best), image, best], axis=1)
        values[blank(part)] = 0.0
        long = texts.cut(part.candidates).copy()
        np.logical_or.at(long, owners, texts.cut(part.references.values))
        return Measurement(values, merged_notes([cut_note(part, long), notes]))


def harmonic_mean(one: Floats, other: Floats) -> Floats:
    """2ab / (a + b); 0 where either is not above 0."""
    both = (one > 0) & (other > 0)
    mean: Floats = np.where(both, 2 * one * other / np.where(both, one + other, 1.0), 0.0)
    return mean


@dataclass(frozen=True, kw_only=True)
class ClipScore(ImageTextScore):
    """CLIPScore: 2.5 max(cos, 0)."""

    NAME: ClassVar[str] = "clipscore"
    SUMMARY: ClassVar[str] = "cosine of caption and picture in CLIP"


@dataclass(frozen=True, kw_only=True)
class RefClipScore(ReferencedScore):
    """RefCLIPScore: the harmonic mean of CLIPScore and the best cosine with a reference."""

    NAME: ClassVar[str] = "refclipscore"
    SUMMARY: ClassVar[str] = "CLIPScore and the best cosine with a reference"
