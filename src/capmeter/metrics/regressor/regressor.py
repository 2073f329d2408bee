"""A regression head on a joint encoder's features, trained by `capmeter train regressor`.

    score = max_r σ(MLP(x_r))                                            x_r: see `capmeter.metrics.regressor.head`

0 to 1, in the units of the human scores it was trained on, scaled to this range. The checkpoint says which shape the
head has, which encoders it reads, and on which rows it was trained; other weights of the encoders are refused. None
ships: no benchmark's judgments are trained on by anything in this package. An empty candidate scores 0.

Wada, Kaneda, Saito, Sugiura: Polos: Multimodal Metric Learning from Human Feedback for Image Captioning. CVPR 2024.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar

import numpy as np

from capmeter.captions.model import CaptionSet
from capmeter.checkpoints import Checkpoint, load_checkpoint
from capmeter.encoders.joint import load_joint
from capmeter.encoders.models import JOINT_ENCODERS, find_encoder
from capmeter.errors import AssetError
from capmeter.metrics.base import Context, MeanMetric, Measurement
from capmeter.metrics.image_text import blank
from capmeter.metrics.regressor.head import Head
from capmeter.metrics.regressor.inputs import Inputs
from capmeter.settings import Settings

KIND = "regressor"


@dataclass(frozen=True, kw_only=True)
class Regressor(MeanMetric):
    """A trained head on the features of pictures and sentences."""

    NAME: ClassVar[str] = "regressor"
    SUMMARY: ClassVar[str] = "a trained head on a joint encoder's features (Polos's shape)"
    EXTRA: ClassVar[str | None] = "vision"

    checkpoint: Annotated[str, "the folder that `capmeter train regressor` wrote"]
    encoder: Annotated[str, "the joint encoder, if it is elsewhere than in training"] = ""

    @cached_property
    def trained(self) -> Checkpoint:
        """The checkpoint."""
        return load_checkpoint(self.checkpoint, KIND)

    @cached_property
    def head(self) -> Head:
        """The head of the checkpoint."""
        return Head.from_weights(self.trained.weights)

    @property
    def inputs(self) -> Inputs:
        """What the head reads."""
        found = Inputs.from_parameters(self.trained.parameters)
        return found.with_encoder(self.encoder) if self.encoder else found

    @property
    def needs(self) -> frozenset[str]:
        """A picture, and references if the head reads them."""
        return frozenset({"image", "references"} if self.inputs.shape == "polos" else {"image"})

    @property
    def columns(self) -> tuple[str, ...]:
        """The score."""
        return ("score",)

    def measure(self, part: CaptionSet, context: Context) -> Measurement:
        """The score of each caption: the highest over its references."""
        self._check(context.settings)
        read = self.inputs.of(part, context.settings)
        if read.values.shape[1] != self.head.inputs:
            raise AssetError(
                f"regressor: the checkpoint {self.checkpoint} reads {self.head.inputs} numbers, but the encoders give "
                f"{read.values.shape[1]}; name the encoders it was trained with"
            )
        scores = np.full(len(part), -np.inf)
        np.maximum.at(scores, read.rows, self.head.scores(read.values))
        scores[blank(part)] = 0.0
        return Measurement(scores[:, None], read.notes)

    def _check(self, settings: Settings) -> None:
        """Raises an `AssetError` for an encoder with other weights than in training."""
        expected = self.trained.parameters.get("encoder_sha256")
        found = find_encoder(self.inputs.encoder, JOINT_ENCODERS).sha256
        if expected != found:
            raise AssetError(
                f"regressor: {self.checkpoint} was trained on another encoder (sha256 {str(expected)[:12]}) than "
                f"{self.inputs.encoder!r} (sha256 {found[:12]})"
            )

    def facts(self, context: Context) -> dict[str, str]:
        """The checkpoint, the encoder's weights and the precision."""
        encoder = load_joint(self.inputs.encoder, context.settings)
        return {"trained": self.trained.label} | encoder.facts()
