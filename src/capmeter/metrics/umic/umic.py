"""UMIC (Lee et al. 2021): how well a caption fits its picture, without references.

    umic   = sigmoid(W [CLS](regions, caption) + b)          UNITER, fine-tuned to rank captions above their negatives
    umic-c = P(match) of UNITER's image-text matching head, without fine-tuning

[CLS] is UNITER's pooled state over the caption's word pieces and the picture's regions. Range 0 to 1, higher is better.
An empty candidate scores 0. Regions come from a detector (`capmeter.load(..., regions=...)`): those with a confidence
above `conf_th`, at least `min_boxes`, at most `max_boxes`. Each picture's regions are read and embedded once per part.

`checkpoint` is a name or folder. UNITER's and UMIC's published weights are converted once with `capmeter train
import-uniter`; `capmeter train umic` trains, with `--world` from random weights on drawn pictures of the made world, of
which alone such a checkpoint knows anything. They do not ship; `umic-world`, for the made world, does.

Departures from the released code (docs/umic.md): the most confident boxes are taken, and captions are cut at the
encoder's length; `as_released=true` takes the first boxes of the file as they come, and for `umic-c` gives sigmoid of
the matching head's second row, from which fine-tuning starts.

Lee, Yoon, Dernoncourt, Bui, Jung: UMIC: An Unreferenced Metric for Image Captioning via Contrastive Learning. ACL 2021.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np

from capmeter.captions.model import CaptionSet
from capmeter.encoders.pairs import PairEncoder, PairStates, attention_to_regions, load_pair_encoder
from capmeter.errors import AssetError
from capmeter.images.regions import BoxRule
from capmeter.metrics.base import Context, MeanMetric, Measurement
from capmeter.metrics.evidence import Evidence, RegionEvidence
from capmeter.metrics.regions import Pairs, encoder_facts, regions_of_caption
from capmeter.settings import Settings

if TYPE_CHECKING:
    from torch import Tensor

ADVICE = (
    "convert published weights with `capmeter train import-uniter`, or train with `capmeter train umic`, and name the "
    "folder (checkpoint=FOLDER)"
)


@dataclass(frozen=True, kw_only=True)
class PairMetric(MeanMetric):
    """What `umic` and `umic-c` share: a head over UNITER's pooled state."""

    EXTRA: ClassVar[str | None] = "neural"
    ROWS: ClassVar[int] = 512
    HEAD: ClassVar[str]

    checkpoint: Annotated[str, "name or folder of the trained weights"] = "umic"
    conf_th: Annotated[float, "use boxes with a confidence above this"] = 0.2
    min_boxes: Annotated[int, "but at least so many"] = 10
    max_boxes: Annotated[int, "and at most so many"] = 100
    lower: Annotated[bool, "lower-case captions first, as the authors' benchmark files are"] = False
    as_released: Annotated[bool, "follow the released code where it departs from the paper"] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.rule  # noqa: B018  checks the numbers of boxes

    @property
    def rule(self) -> BoxRule:
        """Which boxes are used."""
        return BoxRule(self.conf_th, self.min_boxes, self.max_boxes, in_order=self.as_released)

    @property
    def needs(self) -> frozenset[str]:
        """Regions alone."""
        return frozenset({"regions"})

    @property
    def columns(self) -> tuple[str, ...]:
        """The score."""
        return ("score",)

    def encoder(self, settings: Settings) -> PairEncoder:
        """The network, checked to have the head."""
        found = load_pair_encoder(self.checkpoint, settings, ADVICE)
        if self.HEAD not in found.heads:
            raise AssetError(
                f"{self.name}: checkpoint {self.checkpoint!r} has no head {self.HEAD}; it has "
                f"{', '.join(sorted(found.heads)) or 'none'}. {ADVICE[0].upper()}{ADVICE[1:]}"
            )
        return found

    @abstractmethod
    def read(self, output: Tensor) -> Tensor:
        """Scores [b] from the head's output."""

    def measure(self, part: CaptionSet, context: Context) -> Measurement:
        """One score per caption."""
        encoder = self.encoder(context.settings)
        pairs = Pairs.of(part, encoder, self.rule, lower=self.lower)
        scores = pairs.run(lambda batch: self._scores(encoder, batch), context.settings)
        values = np.array(scores, np.float64)[pairs.of_candidates]
        blank = [not part.pool[k].strip() for k in part.candidates.tolist()]
        return Measurement(np.where(blank, 0.0, values)[:, None], pairs.truncated(part))

    def _scores(self, encoder: PairEncoder, batch: PairStates) -> list[float]:
        output = encoder.uniter.head(encoder.uniter.pooled(batch.states), self.HEAD)
        scores: list[float] = self.read(output.float()).tolist()
        return scores

    def facts(self, context: Context) -> dict[str, str]:
        """The weights, the choice of boxes, the libraries."""
        return encoder_facts(self.encoder(context.settings), self.rule, context.settings)

    def explain(self, part: CaptionSet, context: Context) -> list[Evidence]:
        """The caption's word pieces, the regions, and how much [CLS] attends to each of them in the last layer."""
        encoder = self.encoder(context.settings)
        pairs = Pairs.of(part, encoder, self.rule, lower=self.lower)
        shares = pairs.run(attention_to_regions, context.settings, attention=True)
        scores = self.measure(part, context).values[:, 0]
        evidence = []
        for row, pair in enumerate(pairs.of_candidates.tolist()):
            regions = regions_of_caption(part, row, self.rule)
            words = tuple(encoder.tokenizer.pieces(pairs.pieces[int(pairs.sentence[pair])][1:-1].tolist()))
            seen = RegionEvidence(
                tuple(map(tuple, regions.boxes.tolist())), tuple(shares[pair].tolist()), regions.labels or ()
            )
            facts: dict[str, float | str] = {"score": float(scores[row]), "regions": len(regions)}
            evidence.append(Evidence(words, (), facts=facts, regions=seen))
        return evidence


@dataclass(frozen=True, kw_only=True)
class Umic(PairMetric):
    """sigmoid of the ranking head."""

    NAME: ClassVar[str] = "umic"
    SUMMARY: ClassVar[str] = "fit of caption and picture's regions, trained to rank captions above negatives"
    HEAD: ClassVar[str] = "rank_output"

    def read(self, output: Tensor) -> Tensor:
        """The sigmoid."""
        return output[:, 0].sigmoid()


@dataclass(frozen=True, kw_only=True)
class UmicC(PairMetric):
    """The matching head before fine-tuning: probability of a match, or as released sigmoid of its second row."""

    NAME: ClassVar[str] = "umic-c"
    SUMMARY: ClassVar[str] = "UNITER's image-text matching, without fine-tuning"
    HEAD: ClassVar[str] = "itm_output"

    def read(self, output: Tensor) -> Tensor:
        """The probability of the second class."""
        return output[:, 1].sigmoid() if self.as_released else output.softmax(dim=1)[:, 1]
