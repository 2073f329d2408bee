"""SigLIP score (Zhai et al. 2023): the probability that a caption belongs to its picture, as SigLIP was trained.

    score = σ(t cos(T(c), V(v)) + b)                             t, b: the model's trained factor and offset

0 to 1. Nothing is put before captions, as in training. `value=cosine` is the cosine itself (-1 to 1): the same ranking,
without the digits that the sigmoid loses near 0 and 1. An empty candidate scores 0. Captions over the model's 64 tokens
are cut before the end token and listed in the notes under `cut`.

Zhai, Mustafa, Kolesnikov, Beyer: Sigmoid Loss for Language Image Pre-Training. ICCV 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np

from capmeter.captions.model import CaptionSet
from capmeter.errors import InputError
from capmeter.metrics.base import Context, MeanMetric, Measurement, merged_notes
from capmeter.metrics.image_text import SentenceFeatures, blank, cut_note, encoder_of, picture_vectors


@dataclass(frozen=True, kw_only=True)
class SiglipScore(MeanMetric):
    """The probability of a match by SigLIP."""

    NAME: ClassVar[str] = "siglip-score"
    SUMMARY: ClassVar[str] = "match of image and caption in SigLIP"
    EXTRA: ClassVar[str | None] = "vision"

    encoder: Annotated[str, "alias, hub id or folder of a SigLIP model"] = "siglip"
    value: Annotated[Literal["probability", "cosine"], "what the score is"] = "probability"
    prefix: Annotated[str, "what is put before every caption"] = ""

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
        encoder = encoder_of(self.encoder, context.settings)
        if encoder.bias is None:
            raise InputError(
                f"siglip-score: {self.encoder!r} has no trained offset, so it is not a SigLIP model; "
                "choose one, or clipscore"
            )
        pictures, notes = picture_vectors(part, self.encoder, context.settings)
        texts = SentenceFeatures.of(part, part.candidates, encoder, self.prefix)
        scores = np.einsum("nd,nd->n", texts[part.candidates], pictures)
        if self.value == "probability":
            from scipy.special import expit

            scores = expit(encoder.scale * scores + encoder.bias)
        scores[blank(part)] = 0.0
        return Measurement(scores[:, None], merged_notes([cut_note(part, texts.cut(part.candidates)), notes]))

    def facts(self, context: Context) -> dict[str, str]:
        """The weights, the preprocessing, the libraries and the precision."""
        return encoder_of(self.encoder, context.settings).facts()
