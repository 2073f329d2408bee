"""A regression head on the features or states of a joint or text encoder, trained by `capmeter train regressor`.

    score = max_r σ(MLP(x_r) + w · y_r)                      shapes `polos`, `pair` and `text`
    score = σ(a precision + b recall + c cosine + d)         shape `infometic` (`network.py`)

Range 0 to 1, in the units of the human scores it was trained on, scaled to this range. An empty candidate scores 0; the
corpus score is the mean. The shape `infometic` also predicts which words are wrong and which regions are mentioned
(`explain`); its parts are the text precision, the vision recall, the encoder's own cosine (-1 to 1 each), and the
number of wrong words. The checkpoint contains the head's shape, the names and hashes of its encoders, the training data
and, if it was fine-tuned, the joint encoder itself; encoders with other weights are refused. None is bundled: nothing
in this package is trained on a benchmark's judgments.

>>> str(Regressor(checkpoint="my-head"))
'regressor(checkpoint=my-head)'

Wada, Kaneda, Saito, Sugiura: Polos: Multimodal Metric Learning from Human Feedback for Image Captioning. CVPR 2024.
Hu, Chen, Zhang, Jin: InfoMetIC: An Informative Metric for Reference-free Image Caption Evaluation. ACL 2023.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.checkpoints import Checkpoint, load_checkpoint, rebuilding
from capmeter.core.errors import AssetError, InputError
from capmeter.core.settings import Settings
from capmeter.encoders import load_encoder
from capmeter.encoders.handle import find_joint_encoder
from capmeter.encoders.joint.encoder import load_joint_encoder
from capmeter.evaluation.base import MeanMetric, Measurement, RunContext, empty_candidates
from capmeter.evaluation.evidence import Evidence
from capmeter.metrics.embedding.word_pieces import encoder_facts
from capmeter_research.papers.infometic.head import RegressionHead
from capmeter_research.papers.infometic.infometic import COLUMNS, HeadScores, InfoMetICHead, build_evidence
from capmeter_research.papers.infometic.inputs import InputSpec
from capmeter_research.papers.infometic.joint_states import load_state_encoder
from capmeter_research.papers.infometic.states import CaptionImageStates

KIND = "regressor"
TUNED_ENCODER = "encoder"
"""The folder of the fine-tuned joint encoder in a checkpoint's."""


@dataclass(frozen=True, kw_only=True)
class Regressor(MeanMetric):
    """A trained head on an encoder.

    Args:
        checkpoint: folder of the head.
        encoder: the encoder, if it is elsewhere than in training.
    """

    NAME: ClassVar[str] = "regressor"
    SUMMARY: ClassVar[str] = "a trained head on a joint encoder (Polos's or InfoMetIC's shape)"
    EXTRA: ClassVar[str | None] = "vision"
    PART_SIZE: ClassVar[int] = 1024
    MAX_WORDS: ClassVar[int | None] = 55  # CLIP reads 77 word pieces
    FAMILY: ClassVar[str] = "With the picture"
    MISLEADS: ClassVar[str] = (
        "Sees what is in the image but hardly how it is arranged: counts, relations and word order matter little. "
        "Text beyond what the encoder reads (CLIP: 77 word pieces) is not read."
    )
    FORMULA: ClassVar[tuple[str, ...]] = (r"\text{score} = \max_{r} \sigma(\text{MLP}(x_r))",)
    GUIDE: ClassVar[str] = "docs/images.md"

    checkpoint: Annotated[str, "the folder that `capmeter train regressor` wrote"]
    encoder: Annotated[str, "the joint encoder, if it is elsewhere than in training"] = ""

    @cached_property
    def trained(self) -> Checkpoint:
        """The checkpoint."""
        checkpoint = load_checkpoint(self.checkpoint, KIND)
        InputSpec.from_parameters(checkpoint.parameters)
        return checkpoint

    @cached_property
    def head(self) -> RegressionHead:
        """The head of the checkpoint, of the shapes `polos`, `pair` and `text`."""
        with rebuilding("a regressor", self.checkpoint):
            return RegressionHead.from_weights(self.trained.weights)

    @property
    def inputs(self) -> InputSpec:
        """What the head reads."""
        input_spec = InputSpec.from_parameters(self.trained.parameters)
        tuned_encoder = str(Path(self.checkpoint) / TUNED_ENCODER) if self.trained.parameters.get("tuned") else ""
        encoder_name = self.encoder or tuned_encoder
        return replace(input_spec, encoder=encoder_name) if encoder_name else input_spec

    @property
    def needs(self) -> frozenset[str]:
        """What the head reads: an image, references."""
        inputs = self.inputs
        references = {"references"} if inputs.reads_references else set[str]()
        return frozenset(references if inputs.shape == "text" else references | {"image"})

    @property
    def columns(self) -> tuple[str, ...]:
        """The score, and InfoMetIC's parts of it."""
        return COLUMNS if self.inputs.shape == "infometic" else ("score",)

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """The score of each caption; the highest over its references, if it reads them."""
        self._check_encoder()
        if self.inputs.shape == "infometic":
            states, predictions = self._predict(part, context.settings)
            return Measurement(predictions.values, states.notes)
        inputs = self.inputs.compute(part, context.settings)
        if inputs.values.shape[1] != self.head.inputs:
            raise AssetError(
                f"regressor: the checkpoint {self.checkpoint} reads {self.head.inputs} numbers, but the encoders give "
                f"{inputs.values.shape[1]}; name the encoders it was trained with"
            )
        caption_scores = np.full(len(part), -np.inf)
        np.maximum.at(caption_scores, inputs.rows, self.head.scores(inputs.values))
        caption_scores[empty_candidates(part)] = 0.0
        return Measurement(caption_scores[:, None], inputs.notes)

    @property
    def can_explain(self) -> bool:
        """Whether the head has InfoMetIC's shape."""
        return self.inputs.shape == "infometic"

    def explain(self, part: CaptionSet, context: RunContext) -> list[Evidence]:
        """With InfoMetIC's shape: the score of every word, wrong words, and regions that are mentioned or not.

        Raises:
            InputError: the head has another shape.
        """
        if not self.can_explain:
            raise InputError(
                f"{self.name}: a head of the shape {self.inputs.shape} cannot explain its scores; train one with "
                "--shape infometic"
            )
        self._check_encoder()
        states, predictions = self._predict(part, context.settings)
        labels = load_state_encoder(find_joint_encoder(self.inputs.encoder), context.settings).labels
        return build_evidence(part, states, predictions, labels)

    def _predict(self, part: CaptionSet, settings: Settings) -> tuple[CaptionImageStates, HeadScores]:
        state_encoder = load_state_encoder(find_joint_encoder(self.inputs.encoder), settings)
        states = CaptionImageStates.from_captions(part, state_encoder, self.inputs.prefix, settings)
        head = InfoMetICHead.from_checkpoint(self.trained, state_encoder, self.checkpoint)
        return states, head.score_captions(part, states, state_encoder.device)

    def _check_encoder(self) -> None:
        """Raises an `AssetError` for an encoder with other weights than in training."""
        expected_sha256 = self.trained.parameters.get("encoder_sha256")
        sha256 = self.inputs.handle.sha256
        if expected_sha256 != sha256:
            raise AssetError(
                f"regressor: {self.checkpoint} was trained on another encoder (sha256 {str(expected_sha256)[:12]}) "
                f"than {self.inputs.encoder!r} (sha256 {sha256[:12]})"
            )

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The checkpoint, the encoder's weights and the precision."""
        if self.inputs.shape == "text":
            layer = load_encoder(self.inputs.handle, context.settings).layers
            return {"trained": self.trained.label} | encoder_facts(self.inputs.handle, layer, context.settings)
        load = load_state_encoder if self.inputs.shape == "infometic" else load_joint_encoder
        encoder = load(find_joint_encoder(self.inputs.encoder), context.settings)
        return {"trained": self.trained.label} | encoder.signature_facts()
