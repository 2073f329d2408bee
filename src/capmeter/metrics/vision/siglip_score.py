"""SigLIP score (Zhai et al. 2023): the probability that a caption belongs to its image, as SigLIP was trained.

    score = σ(t cos(T(c), V(v)) + b)                             t, b: the model's trained factor and offset

Range 0 to 1; `value=cosine` is the cosine itself (-1 to 1): the same ranking, without the digits that the sigmoid loses
near 0 and 1. Captions have no prefix, as in training. An empty candidate scores 0; the corpus score is the mean.
Captions over the model's 64 tokens are truncated before the end token and listed in the notes under `truncated`.

>>> str(SiglipScore(value="cosine"))
'siglip-score(value=cosine)'

Zhai, Mustafa, Kolesnikov, Beyer: Sigmoid Loss for Language Image Pre-Training. ICCV 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.encoders.handle import find_joint_encoder
from capmeter.encoders.joint.encoder import load_joint_encoder
from capmeter.evaluation.base import Measurement, RunContext, empty_candidates
from capmeter.metrics.vision.image_text import ImageTextMetric, row_cosines


@dataclass(frozen=True, kw_only=True)
class SiglipScore(ImageTextMetric):
    """The probability of a match by SigLIP.

    Args:
        encoder: alias, hub id or folder of a SigLIP model.
        value: the probability, or the cosine.
        prefix: text before every caption.
    """

    NAME: ClassVar[str] = "siglip-score"
    SUMMARY: ClassVar[str] = "match of image and caption in SigLIP"
    FORMULA: ClassVar[tuple[str, ...]] = (r"\text{score} = \sigma\left( t \cos(T(c), V(v)) + b \right)",)

    encoder: Annotated[str, "alias, hub id or folder of a SigLIP model"] = "siglip"
    value: Annotated[Literal["probability", "cosine"], "what the score is"] = "probability"
    prefix: Annotated[str, "text before every caption"] = ""

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """The score of each caption."""
        encoder = load_joint_encoder(find_joint_encoder(self.encoder), context.settings)
        if encoder.bias is None:
            raise InputError(
                f"siglip-score: {self.encoder!r} has no trained offset, so it is not a SigLIP model; "
                "choose one, or clipscore"
            )
        encoded = self.encode(part, self.prefix, context.settings)
        caption_scores = row_cosines(encoded.candidates, encoded.images)
        if self.value == "probability":
            from scipy.special import expit

            caption_scores = expit(encoder.scale * caption_scores + encoder.bias)
        caption_scores[empty_candidates(part)] = 0.0
        return Measurement(caption_scores[:, None], encoded.notes)
