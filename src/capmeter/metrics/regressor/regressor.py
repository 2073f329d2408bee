"""A trained head on a joint encoder's features or states, by `capmeter train regressor`.

    score = max_r σ(MLP(x_r) + w · y_r)               shapes `polos` and `pair`: see `capmeter.metrics.regressor.head`
    score = σ(a precision + b recall + c cosine + d)  shape `infometic`: see `capmeter.metrics.regressor.network`

0 to 1, in the units of the human scores it was trained on, scaled to this range. The shape `infometic` also says which
words are wrong and which regions are mentioned (`explain`); its parts are the text precision, the vision recall, the
encoder's own cosine (-1 to 1 each), and the number of wrong words. The checkpoint says which shape the head has, which
encoders it reads, and on which rows it was trained; it holds the joint encoder itself if that was tuned. Other weights
of the encoders are refused. None ships: no
benchmark's judgments are trained on by anything in this package. An empty candidate scores 0.

Wada, Kaneda, Saito, Sugiura: Polos: Multimodal Metric Learning from Human Feedback for Image Captioning. CVPR 2024.
Hu, Chen, Zhang, Jin: InfoMetIC: An Informative Metric for Reference-free Image Caption Evaluation. ACL 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np

from capmeter.captions.model import CaptionSet
from capmeter.checkpoints import Checkpoint, load_checkpoint
from capmeter.encoders.joint import load_joint
from capmeter.encoders.models import JOINT_ENCODERS, find_encoder
from capmeter.encoders.states import load_states
from capmeter.errors import AssetError, InputError
from capmeter.metrics.base import Context, MeanMetric, Measurement
from capmeter.metrics.evidence import Evidence
from capmeter.metrics.image_text import blank
from capmeter.metrics.regressor.head import Head
from capmeter.metrics.regressor.infometic import COLUMNS, InfoMetICHead, Judged
from capmeter.metrics.regressor.inputs import Inputs
from capmeter.metrics.regressor.states import States
from capmeter.settings import Settings

KIND = "regressor"
TUNED = "encoder"
"""The folder of the tuned joint encoder in a checkpoint's."""


@dataclass(frozen=True, kw_only=True)
class Regressor(MeanMetric):
    """A trained head on what an encoder says of pictures and sentences."""

    NAME: ClassVar[str] = "regressor"
    SUMMARY: ClassVar[str] = "a trained head on a joint encoder (Polos's or InfoMetIC's shape)"
    EXTRA: ClassVar[str | None] = "vision"
    ROWS: ClassVar[int] = 1024

    checkpoint: Annotated[str, "the folder that `capmeter train regressor` wrote"]
    encoder: Annotated[str, "the joint encoder, if it is elsewhere than in training"] = ""

    @cached_property
    def trained(self) -> Checkpoint:
        """The checkpoint."""
        return load_checkpoint(self.checkpoint, KIND)

    @cached_property
    def head(self) -> Head:
        """The head of the checkpoint, of the shapes `polos` and `pair`."""
        return Head.from_weights(self.trained.weights)

    @property
    def inputs(self) -> Inputs:
        """What the head reads."""
        found = Inputs.from_parameters(self.trained.parameters)
        own = str(Path(self.checkpoint) / TUNED) if self.trained.parameters.get("tuned") else ""
        return found.with_encoder(self.encoder or own) if self.encoder or own else found

    @property
    def needs(self) -> frozenset[str]:
        """A picture, and references if the head reads them."""
        return frozenset({"image", "references"} if self.inputs.shape == "polos" else {"image"})

    @property
    def columns(self) -> tuple[str, ...]:
        """The score, and InfoMetIC's parts of it."""
        return COLUMNS if self.inputs.shape == "infometic" else ("score",)

    def measure(self, part: CaptionSet, context: Context) -> Measurement:
        """The score of each caption: of Polos's shape the highest over its references."""
        self._check(context.settings)
        if self.inputs.shape == "infometic":
            states, judged = self._judged(part, context)
            return Measurement(judged.values, states.notes)
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

    @property
    def explains(self) -> bool:
        """Whether the head is of InfoMetIC's shape."""
        return self.inputs.shape == "infometic"

    def explain(self, part: CaptionSet, context: Context) -> list[Evidence]:
        """Of InfoMetIC's shape: every word's score, the wrong ones, and the regions that are mentioned or not.

        Raises:
            InputError: the head has another shape.
        """
        if self.inputs.shape != "infometic":
            raise InputError(
                f"{self.name}: a head of the shape {self.inputs.shape} cannot explain its scores; train one with "
                "--shape infometic"
            )
        self._check(context.settings)
        states, judged = self._judged(part, context)
        labels = load_states(self.inputs.encoder, context.settings).labels
        return InfoMetICHead.evidence(part, states, judged, labels)

    def _judged(self, part: CaptionSet, context: Context) -> tuple[States, Judged]:
        encoder = load_states(self.inputs.encoder, context.settings)
        states = States.of(part, encoder, self.inputs.prefix, context.settings)
        head = InfoMetICHead.of(self.trained, encoder, self.checkpoint)
        return states, head.judge(part, states, encoder.device)

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
        load = load_states if self.inputs.shape == "infometic" else load_joint
        return {"trained": self.trained.label} | load(self.inputs.encoder, context.settings).facts()
