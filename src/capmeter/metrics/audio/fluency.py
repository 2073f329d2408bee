"""Penalties for captions with fluency errors (Zhou et al. 2022): SPIDEr-FL, FENSE, and the same for any metric.

    fer       = 1 if P(error) > threshold, else 0
    penalised = metric · (1 − penalty · fer)                                            of each caption; the mean of all

    SPIDEr-FL = penalised SPIDEr,    FENSE = penalised mean cosine of sentence vectors

with threshold .9 and penalty .9. P(error) is the probability that a caption breaks off, repeats itself, or lacks a verb
or conjunction. `errors` says where it comes from: `fluency`, the bundled detector, a file of probabilities, or the
folder of a classifier (docs/audio.md). FENSE's paper has the encoder paraphrase-TinyBERT-L6-v2 and a BERT of its own as
detector. Range that of the metric; `fer` 0 to 1, smaller is better.

>>> from capmeter.evaluation.registry import parse
>>> str(parse("fense(errors=probabilities.json)"))
'fense(errors=probabilities.json)'

Z. Zhou, Z. Zhang, X. Xu, Z. Xie, M. Wu, K. Q. Zhu. Can Audio Captions Be Evaluated with Image Caption Metrics? ICASSP
2022.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.core.ragged import distinct
from capmeter.evaluation.base import Floats, MeanMetric, Measurement, Metric, RunContext
from capmeter.evaluation.composite import CompositeMetric, MemberScores
from capmeter.metrics.audio.detector import KIND, error_probabilities, source_label
from capmeter.metrics.combined.spider import Spider
from capmeter.metrics.embedding.sbert import Sbert

ErrorSource = Annotated[str, "where P(error) comes from: the bundled detector, a file by caption, or a folder"]
Threshold = Annotated[float, "P(error) above which a caption is penalised"]
Penalty = Annotated[float, "the share of the score that an error costs"]


def _check_share(metric_name: str, parameter_name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise InputError(f"{metric_name}: expected {parameter_name} from 0 to 1, but got {value:g}")


@dataclass(frozen=True, kw_only=True)
class FluencyErrorRate(MeanMetric):
    """The share of captions with a fluency error.

    Args:
        errors: where the probabilities of errors come from.
        threshold: the probability above which a caption counts as faulty.
    """

    NAME: ClassVar[str] = "fer"
    SUMMARY: ClassVar[str] = "share of captions with a fluency error"
    MICROSECONDS: ClassVar[float] = 400.0
    columns: ClassVar[tuple[str, ...]] = ("score", "probability")
    needs: ClassVar[frozenset[str]] = frozenset()
    lower_is_better: ClassVar[bool] = True
    FAMILY: ClassVar[str] = "Fluency of captions of sounds"
    MISLEADS: ClassVar[str] = (
        "Depends on the detector of errors: name it. It sees grammar alone, and a threshold decides."
    )
    FORMULA: ClassVar[tuple[str, ...]] = (r"\text{fer} = [P(\text{error}) > 0.9]",)
    GUIDE: ClassVar[str] = "docs/audio.md"

    errors: ErrorSource = KIND
    threshold: Threshold = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_share(self.name, "threshold", self.threshold)

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """1 for a caption with an error, and the probability of one."""
        distinct_candidates = distinct(part.candidates.astype(np.int64))
        probabilities = error_probabilities(
            self.errors, [part.pool[k] for k in distinct_candidates.tolist()], context.settings
        )
        caption_probabilities = probabilities[np.searchsorted(distinct_candidates, part.candidates)]
        return Measurement(
            np.column_stack([caption_probabilities > self.threshold, caption_probabilities]).astype(np.float64)
        )

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The detector or file, with its hash."""
        return {"detector": source_label(self.errors)}


@dataclass(frozen=True, kw_only=True)
class Penalised(CompositeMetric):
    """A metric that loses most of its score where a caption has a fluency error."""

    NAME: ClassVar[str] = "penalised"
    SUMMARY: ClassVar[str] = "any metric, less for captions with a fluency error"
    is_mean: ClassVar[bool] = True
    FAMILY: ClassVar[str] = "Fluency of captions of sounds"
    MISLEADS: ClassVar[str] = (
        "Depends on the detector of errors: name it. It sees grammar alone, and a threshold decides."
    )
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"\text{penalised} = \text{metric} \cdot \left( 1 - 0.9 \cdot [P(\text{error}) > 0.9] \right)",
    )
    GUIDE: ClassVar[str] = "docs/audio.md"

    metric: Annotated[Metric, "what is penalised"] = Sbert(pooling="mean")
    errors: ErrorSource = KIND
    threshold: Threshold = 0.9
    penalty: Penalty = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_share(self.name, "threshold", self.threshold)
        _check_share(self.name, "penalty", self.penalty)
        if self.metric.lower_is_better:
            raise InputError(
                f"{self.name}: lower values of metric={self.metric} are better, so that a penalty would reward errors; "
                "choose a metric of which higher values are better"
            )

    def required_metrics(self) -> tuple[Metric, ...]:
        """The metric, and whether captions have errors."""
        return self.metric, FluencyErrorRate(errors=self.errors, threshold=self.threshold)

    @property
    def combined_columns(self) -> tuple[str, ...]:
        """The score, the metric's, and whether there is an error."""
        return "score", str(self.metric), "fer"

    def combine(self, scores: MemberScores, state: Any = None) -> dict[str, Floats]:
        """The metric's score, less where there is an error."""
        metric, error_rates = (scores[member]["score"] for member in self.required_metrics())
        return dict(
            zip(self.combined_columns, (metric * (1 - self.penalty * error_rates), metric, error_rates), strict=True)
        )


@dataclass(frozen=True, kw_only=True)
class SpiderFl(Penalised):
    """SPIDEr-FL: penalised SPIDEr."""

    NAME: ClassVar[str] = "spider-fl"
    SUMMARY: ClassVar[str] = "SPIDEr, less for captions with a fluency error"
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"\text{SPIDEr-FL} = \text{SPIDEr} \cdot \left( 1 - 0.9 \cdot [P(\text{error}) > 0.9] \right)",
    )

    metric: Annotated[Metric, "what is penalised"] = Spider()


@dataclass(frozen=True, kw_only=True)
class Fense(Penalised):
    """FENSE: penalised mean cosine of sentence vectors."""

    NAME: ClassVar[str] = "fense"
    SUMMARY: ClassVar[str] = "cosine of sentence vectors, less for captions with a fluency error"
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"\text{FENSE} = \text{mean cosine} \cdot \left( 1 - 0.9 \cdot [P(\text{error}) > 0.9] \right)",
    )
