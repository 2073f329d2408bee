"""Linear combinations of metrics: their mean, or a weighted sum, of raw or standardised scores.

    score = Σₖ wₖ sₖ                            weights w, one per member; without weights each is 1 / members
    score = Σₖ wₖ (sₖ − meanₖ) / deviationₖ     with `standardised`: sₖ of each caption as a z-score over the run

Any number of members, each with its own parameters. Parts: each member's score (standardised: its z-score) under the
member's name. Range: that of the members, weighted; z-scores are unbounded.

The corpus score. Raw: the same sum of the members' own corpus scores, so that `mean(bleu-4,cider-d)` contains corpus
BLEU, not the mean of caption-level BLEU. Standardised: the mean of the caption scores. Z-scores over a run have mean 0,
so it is 0 on the captions that the means and deviations come from: such a combination ranks the captions of one run (of
one system or of several scored together) and does not compare runs. With another corpus to standardise over
(`evaluate(…, corpus=…)`) it gives the distance of the captions from that corpus. A member with the same score for all
captions has the z-score 0.

>>> from capmeter.evaluation.registry import parse
>>> scores = {parse("bleu-4"): {"score": np.array([0.5, 0.1])}, parse("rouge-l"): {"score": np.array([0.7, 0.1])}}
>>> parse("mean(bleu-4,rouge-l)").combine(scores)["score"].round(3).tolist()
[0.6, 0.1]
>>> parse("combine(bleu-4,rouge-l,weights=0.25+0.75)").combine(scores)["score"].round(3).tolist()
[0.65, 0.1]
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.evaluation.base import CapmeterWarning, CorpusState, Floats, Metric, RunContext
from capmeter.evaluation.composite import CompositeMetric, MemberScores
from capmeter.stats.ratios import ratio

_NO_SPREAD = 1e-12  # deviation relative to the mean: rounding error if all scores are equal


@dataclass(frozen=True, eq=False)
class Moments:
    """The number of scores, and for each of several metrics their mean and sum of squared deviations."""

    count: int
    mean: Floats  # (metrics,)
    squares: Floats  # (metrics,)

    @classmethod
    def from_scores(cls, scores: Floats) -> Moments:
        """The moments of scores (metrics, captions)."""
        mean = scores.mean(axis=1)
        return cls(scores.shape[1], mean, ((scores - mean[:, None]) ** 2).sum(axis=1))

    def __add__(self, other: Moments) -> Moments:
        count = self.count + other.count  # the parallel formula of Chan, Golub and LeVeque: no large sums to subtract
        mean_difference = other.mean - self.mean
        mean = self.mean + mean_difference * (other.count / count)
        squares = self.squares + other.squares + mean_difference**2 * (self.count * other.count / count)
        return Moments(count, mean, squares)

    @property
    def deviation(self) -> Floats:
        """The population standard deviation of each metric's scores; 0 if they are all equal."""
        deviation: Floats = np.sqrt(self.squares / self.count)
        return np.where(deviation > _NO_SPREAD * np.abs(self.mean), deviation, 0.0)


@dataclass(frozen=True)
class ScoreMoments(CorpusState):
    """The moments of the caption scores of each of these metrics over the run."""

    metrics: tuple[Metric, ...]

    def required_metrics(self) -> tuple[Metric, ...]:
        """The metrics."""
        return self.metrics

    def collect(self, part: CaptionSet, context: RunContext) -> Moments:
        """The moments of this part's scores."""
        return Moments.from_scores(np.stack([context.scores[metric]["score"] for metric in self.metrics]))


@dataclass(frozen=True, kw_only=True)
class Combination(CompositeMetric):
    """A weighted sum of metrics."""

    NAME: ClassVar[str] = "combine"
    SUMMARY: ClassVar[str] = "weighted sum of other metrics, raw or standardised over the run"
    FAMILY: ClassVar[str] = "Made of other metrics"
    MISLEADS: ClassVar[str] = "Has the weaknesses of its members, and hides which of them differ."
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"\text{score} = \sum_k w_k s_k",
        r"\text{or, standardised,} \quad \text{score} = \sum_k w_k \frac{s_k - \mu_k}{\sigma_k}",
    )
    EXAMPLE: ClassVar[str] = "bleu-4,cider-d"

    members: Annotated[tuple[Metric, ...], "the metrics, without duplicates"]
    weights: Annotated[tuple[float, ...] | None, "one weight per member; none: equal weights"] = None
    standardised: Annotated[bool, "convert each member's caption scores to z-scores over the run"] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.members:
            raise InputError(f"{self.name}: name the metrics to combine, such as mean(bleu-4,cider-d)")
        repeated_members = [str(member) for k, member in enumerate(self.members) if member in self.members[:k]]
        if repeated_members:
            raise InputError(
                f"{self.name}: duplicate member {repeated_members[0]}; name each once and give it a larger weight"
            )
        if self.weights is not None and len(self.weights) != len(self.members):
            raise InputError(f"combine: {len(self.weights)} weights for {len(self.members)} members; give one each")
        lower = [str(member) for member in self.members if member.lower_is_better]
        if lower and len(set(self._member_directions())) > 1:
            raise InputError(
                f"{self.name}: lower is better for {', '.join(lower)}, but not for all members; give members of one "
                "direction negative weights, such as combine(cider-d,chair,weights=1+-1)"
            )

    @property
    def name(self) -> str:
        """`mean` without weights, else `combine`."""
        return "mean" if self.weights is None else self.NAME

    @property
    def lower_is_better(self) -> bool:
        """Whether all members, each by the sign of its weight, are better when lower."""
        return any(member.lower_is_better for member in self.members) and self._member_directions()[0]

    def _member_directions(self) -> list[bool]:
        """Whether lower is better, for each member multiplied by its weight."""
        weights = self.weights or (1.0,) * len(self.members)
        return [member.lower_is_better == (weight >= 0) for member, weight in zip(self.members, weights, strict=True)]

    @property
    def implied_parameters(self) -> frozenset[str]:
        """The name `mean` implies that there are no weights."""
        return frozenset({"weights"}) if self.weights is None else frozenset()

    @property
    def is_mean(self) -> bool:
        """Standardised scores are combined caption by caption."""
        return self.standardised

    def required_metrics(self) -> tuple[Metric, ...]:
        """The members."""
        return self.members

    def corpus_state(self) -> CorpusState | None:
        """The mean and deviation of each member's scores, to standardise by."""
        return ScoreMoments(self.members) if self.standardised else None

    @property
    def combined_columns(self) -> tuple[str, ...]:
        """The score, and each member's."""
        return ("score", *map(str, self.members))

    def combine(self, scores: MemberScores, state: Any = None) -> dict[str, Floats]:
        """Σ w s, and each s."""
        member_scores = [scores[member]["score"] for member in self.members]
        if state is not None:
            member_scores = self._standardise(member_scores, state)
        member_weights = self.weights or (1 / len(self.members),) * len(self.members)
        weighted_sum = np.sum(
            [weight * score for weight, score in zip(member_weights, member_scores, strict=True)], axis=0
        )
        return dict(zip(self.combined_columns, [weighted_sum, *member_scores], strict=True))

    def _standardise(self, member_scores: list[Floats], moments: Moments) -> list[Floats]:
        deviations = moments.deviation
        constant_members = [str(member) for member, spread in zip(self.members, deviations, strict=True) if spread == 0]
        if constant_members:
            warnings.warn(
                f"{self}: {', '.join(constant_members)} gives all {moments.count} captions the same score, so its "
                "z-score is 0; score more captions at once",
                CapmeterWarning,
                stacklevel=2,
            )
        return [
            ratio(score - mean, spread)
            for score, mean, spread in zip(member_scores, moments.mean, deviations, strict=True)
        ]

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The members' facts and, if standardised, the number of captions standardised over."""
        facts = super().signature_facts(context)
        if isinstance(context.state, Moments):
            facts["standardised"] = f"run/{context.state.count} captions"
        return facts
