"""CLIPScore and RefCLIPScore (Hessel et al. 2021): how well a caption fits its image, by CLIP.

    CLIP-S(c, v)       = w max(cos(T("A photo depicts " + c), V(v)), 0)                              w = 2.5
    RefCLIP-S(c, R, v) = H(CLIP-S(c, v), max(max_{r ∈ R} cos(T(c), T(r)), 0))      H: the harmonic mean

V and T are CLIP's encoders of images and of text; references have the prefix too. CLIP-S is 0 to 2.5, in practice .4 to
1; RefCLIP-S is 0 to 1.43. An empty candidate scores 0; the corpus score is the mean. Captions over CLIP's 77 tokens are
truncated before the end token and listed in the notes under `truncated`.

The scores of other tools are this metric with other parameters: torchmetrics' is `clipscore(scale=100.0,prefix="",
clamp=false)` (it clamps only the corpus mean), the raw cosine `clipscore(scale=1.0,clamp=false)`. `encoder` is any CLIP
or SigLIP model: an alias, a hub id or a folder; the paper's is `clip` (ViT-B/32). Arithmetic is in float32, like the
released code's on a CPU; on a GPU that code uses float16, which changes the third digit.

The released code does not clamp the cosine with references, unlike the paper's formula, and ignores the EXIF
orientation of images (docs/images.md).

>>> str(ClipScore(scale=100.0, prefix="", clamp=False))
'clipscore(scale=100.0,prefix="",clamp=false)'

Hessel, Holtzman, Forbes, Le Bras, Choi: CLIPScore: A Reference-free Evaluation Metric for Image Captioning. EMNLP 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.evaluation.base import Floats, Measurement, RunContext, empty_candidates
from capmeter.metrics.vision.image_text import PREFIX, ImageTextMetric, row_cosines


@dataclass(frozen=True, kw_only=True)
class ImageTextScore(ImageTextMetric):
    """The cosine of caption and image in a joint encoder, clamped and scaled.

    Args:
        encoder: alias, hub id or folder of a CLIP or SigLIP model.
        scale: w.
        prefix: text before every sentence.
        clamp: whether a negative cosine counts as 0.
    """

    PART_SIZE: ClassVar[int] = 8192

    encoder: Annotated[str, "alias, hub id or folder of a CLIP or SigLIP model"] = "clip"
    scale: Annotated[float, "w, the factor of the cosine"] = 2.5
    prefix: Annotated[str, "text before every sentence"] = PREFIX
    clamp: Annotated[bool, "whether a negative cosine counts as 0"] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scale <= 0:
            raise InputError(f"{self.name}: expected a scale above 0, but got {self.scale}")

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """The score of each caption."""
        encoded = self.encode(part, self.prefix, context.settings)
        caption_scores = self.scores(encoded.candidates, encoded.images)
        caption_scores[empty_candidates(part)] = 0.0
        return Measurement(caption_scores[:, None], encoded.notes)

    def scores(self, texts: Floats, images: Floats) -> Floats:
        """w max(cos, 0) of each pair of unit vectors (n, width): (n,)."""
        cosine = row_cosines(texts, images)
        return self.scale * (np.maximum(cosine, 0.0) if self.clamp else cosine)


@dataclass(frozen=True, kw_only=True)
class ReferencedScore(ImageTextScore):
    """The harmonic mean of the cosine with the image and the largest cosine with a reference."""

    needs: ClassVar[frozenset[str]] = frozenset({"image", "references"})
    columns: ClassVar[tuple[str, ...]] = ("score", "image", "references")

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """The score of each caption, and both sides of the harmonic mean."""
        encoded = self.encode(part, self.prefix, context.settings, references=True)
        image_scores = self.scores(encoded.candidates, encoded.images)
        reference_cosines = row_cosines(encoded.candidates[part.references.rows], encoded.references)
        best_cosines = np.maximum(np.maximum.reduceat(reference_cosines, part.references.offsets[:-1]), 0.0)
        caption_scores = np.stack([harmonic_mean(image_scores, best_cosines), image_scores, best_cosines], axis=1)
        caption_scores[empty_candidates(part)] = 0.0
        return Measurement(caption_scores, encoded.notes)


def harmonic_mean(one: Floats, other: Floats) -> Floats:
    """2ab / (a + b); 0 unless both are above 0."""
    both_positive = (one > 0) & (other > 0)
    mean: Floats = np.where(both_positive, 2 * one * other / np.where(both_positive, one + other, 1.0), 0.0)
    return mean


@dataclass(frozen=True, kw_only=True)
class ClipScore(ImageTextScore):
    """CLIPScore: 2.5 max(cos, 0)."""

    NAME: ClassVar[str] = "clipscore"
    SUMMARY: ClassVar[str] = "cosine of caption and image in CLIP"
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"\text{CLIP-S}(c, v) = 2.5 \, \max\left( \cos(T(\text{“A photo depicts ”} + c), V(v)), 0 \right)",
    )


@dataclass(frozen=True, kw_only=True)
class RefClipScore(ReferencedScore):
    """RefCLIPScore: the harmonic mean of CLIPScore and the best cosine with a reference."""

    NAME: ClassVar[str] = "refclipscore"
    SUMMARY: ClassVar[str] = "CLIPScore and the best cosine with a reference"
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"\text{RefCLIP-S}(c, R, v) = H\left( \text{CLIP-S}(c, v), \max\left( \max_{r \in R} \cos(T(c), T(r)), 0 "
        r"\right) \right)",
        r"H(a, b) = \frac{2 a b}{a + b}",
    )
