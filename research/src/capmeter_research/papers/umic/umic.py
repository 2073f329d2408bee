"""UMIC (Lee et al. 2021): how well a caption fits its image, without references.

    umic   = sigmoid(W [CLS](regions, caption) + b)          UNITER, fine-tuned to rank captions above their negatives
    umic-c = P(match) of UNITER's image-text matching head, without fine-tuning

[CLS] is UNITER's pooled state over the caption's word pieces and the image's regions. Range 0 to 1, higher is better.
An empty candidate scores 0; the corpus score is the mean. Regions come from a detector (`capmeter.load(...,
regions=...)`): those with a confidence above `conf_th`, at least `min_boxes`, at most `max_boxes`.

`checkpoint` is a name or folder. UNITER's and UMIC's published weights are converted once with `capmeter train
import-uniter`; `capmeter train umic` trains (with `--world` from random weights, on rendered synthetic scenes, for
which alone such a checkpoint is useful; `umic-world` comes with this package). None is bundled.

Departures from the released code (research/docs/umic.md): the most confident boxes are used, and captions are truncated
to the encoder's length; `as_released=true` uses the first boxes of the file, and `umic-c` is then the sigmoid of the
matching head's second row, from which fine-tuning starts.

>>> str(Umic(lower=True)), Umic.HEAD, UmicC.HEAD
('umic(lower=true)', 'rank_output', 'itm_output')

Lee, Yoon, Dernoncourt, Bui, Jung: UMIC: An Unreferenced Metric for Image Captioning via Contrastive Learning. ACL 2021.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import AssetError
from capmeter.core.settings import Settings
from capmeter.evaluation.base import Measurement, RunContext, empty_candidates
from capmeter.evaluation.evidence import Evidence, RegionEvidence
from capmeter.images.regions import regions_at
from capmeter_research.common.region_files import BoxRule
from capmeter_research.papers.umic.pairs import PairEncoder, PairStates, attention_to_regions
from capmeter_research.papers.umic.regions import ADVICE, CaptionRegionPairs, RegionPairMetric, find_keys

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class PairMetric(RegionPairMetric):
    """The base of `umic` and `umic-c`: a head over UNITER's pooled state.

    Args:
        checkpoint: name or folder of a UNITER with this head.
        conf_th, min_boxes, max_boxes: which boxes are used.
        lower: whether to lower-case captions first.
        as_released: follow the released code where it departs from the paper.
    """

    PART_SIZE: ClassVar[int] = 512
    HEAD: ClassVar[str]
    needs: ClassVar[frozenset[str]] = frozenset({"regions"})

    lower: Annotated[bool, "lower-case captions first, as the authors' benchmark files are"] = False
    as_released: Annotated[bool, "follow the released code where it departs from the paper"] = False

    @property
    def rule(self) -> BoxRule:
        """Which boxes are used."""
        return replace(super().rule, in_order=self.as_released)

    def load_encoder(self, settings: Settings) -> PairEncoder:
        """The encoder, checked to have the head."""
        encoder = super().load_encoder(settings)
        if self.HEAD not in encoder.heads:
            raise AssetError(
                f"{self.name}: checkpoint {self.checkpoint!r} has no head {self.HEAD}; it has "
                f"{', '.join(sorted(encoder.heads)) or 'none'}. {ADVICE[0].upper()}{ADVICE[1:]}"
            )
        return encoder

    @abstractmethod
    def read(self, output: Tensor) -> Tensor:
        """Scores [b] from the head's output."""

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """One score per caption."""
        encoder = self.load_encoder(context.settings)
        pairs = CaptionRegionPairs.from_captions(part, encoder, self.rule, lower=self.lower)

        def score_batch(batch: PairStates) -> list[float]:
            head_output = encoder.uniter.head(encoder.uniter.pooled(batch.states), self.HEAD)
            scores: list[float] = self.read(head_output.float()).tolist()
            return scores

        caption_scores = np.array(pairs.run_pairs(score_batch, context.settings), np.float64)[pairs.of_candidates]
        caption_scores[empty_candidates(part)] = 0.0
        return Measurement(caption_scores[:, None], pairs.note_truncated(part))

    def explain(self, part: CaptionSet, context: RunContext) -> list[Evidence]:
        """The caption's word pieces, the regions, and how much [CLS] attends to each of them in the last layer."""
        encoder = self.load_encoder(context.settings)
        pairs = CaptionRegionPairs.from_captions(part, encoder, self.rule, lower=self.lower)
        attention_shares = pairs.run_pairs(attention_to_regions, context.settings, attention=True)
        caption_scores, caption_keys = self.measure(part, context).values[:, 0], find_keys(part)
        evidence = []
        for caption_index, pair_index in enumerate(pairs.of_candidates.tolist()):
            regions = self.rule.select(regions_at(part.regions).read(caption_keys[caption_index]))
            piece_texts = tuple(encoder.tokenizer.pieces(pairs.pieces[int(pairs.sentence[pair_index])][1:-1].tolist()))
            boxes = tuple(map(tuple, regions.boxes.tolist()))
            region_evidence = RegionEvidence(boxes, tuple(attention_shares[pair_index].tolist()), regions.labels or ())
            facts: dict[str, float | str] = {"score": float(caption_scores[caption_index]), "regions": len(regions)}
            evidence.append(Evidence(piece_texts, (), facts=facts, regions=region_evidence))
        return evidence


@dataclass(frozen=True, kw_only=True)
class Umic(PairMetric):
    """sigmoid of the ranking head."""

    NAME: ClassVar[str] = "umic"
    SUMMARY: ClassVar[str] = "fit of caption and image regions, trained to rank captions above negatives"
    HEAD: ClassVar[str] = "rank_output"
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"\text{score} = \sigma\left( W \, \text{UNITER}_{[\text{CLS}]}(v, c) + b \right)",
    )

    def read(self, output: Tensor) -> Tensor:
        """The sigmoid."""
        return output[:, 0].sigmoid()


@dataclass(frozen=True, kw_only=True)
class UmicC(PairMetric):
    """The matching head before fine-tuning: probability of a match, or as released sigmoid of its second row."""

    NAME: ClassVar[str] = "umic-c"
    SUMMARY: ClassVar[str] = "UNITER's image-text matching, without fine-tuning"
    HEAD: ClassVar[str] = "itm_output"
    FORMULA: ClassVar[tuple[str, ...]] = (r"\text{score} = P(\text{match} \mid \text{UNITER}_{[\text{CLS}]}(v, c))",)

    def read(self, output: Tensor) -> Tensor:
        """The probability of the second class."""
        return output[:, 1].sigmoid() if self.as_released else output.softmax(dim=1)[:, 1]
