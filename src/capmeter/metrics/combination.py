"""Linear combinations of metrics: their mean, or a weighted sum, of raw or standardised scores.

    score = Σₖ wₖ sₖ                            weights w, one per member; without weights each is 1 / members
    score = Σₖ wₖ (sₖ − meanₖ) / deviationₖ     with `standardised`: sₖ of each caption as a z-score over the run

Any number of members, each with its own parameters. Parts: each member's score (standardised: its z-score) under the
member's name. Range: that of the members, weighted; z-scores have none.

The corpus score. Raw: the same sum of the members' own corpus scores, so that `mean(bleu-4,cider-d)` contains corpus
BLEU, not the mean of caption-level BLEU. Standardised: the mean of the caption scores. Z-scores over a run have mean 0,
so this is 0 for the very captions that the means and deviations come from: such a combination ranks the captions of one
run (of one system or of several scored together), and does not compare runs. With another corpus to standardise over
(`evaluate(…, corpus=…)`) it says how far the captions lie from that corpus. A member that gives all captions the same
score has no spread; its z-score is 0.

>>> from capmeter.metrics.registry import parse
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

from capmeter.captions.model import CaptionSet
from capmeter.errors import InputError
from capmeter.metrics.base import CapmeterWarning, Context, Corpus, Floats, Metric
from capmeter.metrics.composite import CompositeMetric, MemberScores

_NO_SPREAD = 1e-12  # deviation relative to the mean: rounding error if all scores are equal


@dataclass(frozen=True, eq=False)
class Moments:
    """The number of scores, and for each of several metrics their mean and sum of squared deviations."""

    count: int
    mean: Floats
    squares: Floats

    @classmethod
    def of(cls, scores: Floats) -> Moments:
        """The moments of scores [metrics, captions]."""
        mean = scores.mean(axis=1)
        return cls(scores.shape[1], mean, ((scores - mean[:, None]) ** 2).sum(axis=1))

    def __add__(self, other: Moments) -> Moments:
        count = self.count + other.count  # the parallel formula of Chan, Golub and LeVeque: no large sums to subtract
        apart = other.mean - self.mean
        mean = self.mean + apart * (other.count / count)
        return Moments(count, mean, self.squares + other.squares + apart**2 * (self.count * other.count / count))

    @property
    def deviation(self) -> Floats:
        """The population standard deviation of each metric's scores; 0 if they are all equal."""
        deviation: Floats = np.sqrt(self.squares / self.count)
        return np.where(deviation > _NO_SPREAD * np.abs(self.mean), deviation, 0.0)


@dataclass(frozen=True)
class ScoreMoments(Corpus):
    """Corpus: the moments of the caption scores of each of these metrics."""

    metrics: tuple[Metric, ...]

    def requires(self) -> tuple[Metric, ...]:
        """The metrics."""
        return self.metrics

    def collect(self, part: CaptionSet, context: Context) -> Moments:
        """The moments of this part's scores."""
        return Moments.of(np.stack([context.scores[metric]["score"] for metric in self.metrics]))


@dataclass(frozen=True, kw_only=True)
class Combination(CompositeMetric):
    """A weighted sum of metrics."""

    NAME: ClassVar[str] = "combine"
    SUMMARY: ClassVar[str] = "weighted sum of other metrics, raw or standardised over the run"

    members: Annotated[tuple[Metric, ...], "the metrics, without duplicates"]
    weights: Annotated[tuple[float, ...] | None, "one weight per member; none: equal weights"] = None
    standardised: Annotated[bool, "convert each member's caption scores to z-scores over the run"] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.members:
            raise InputError(f"{self.name}: name the metrics to combine, such as mean(bleu-4,cider-d)")
        twice = [str(member) for k, member in enumerate(self.members) if member in self.members[:k]]
        if twice:
            raise InputError(f"{self.name}: duplicate member {twice[0]}; name each once and give it a larger weight")
        if self.weights is not None and len(self.weights) != len(self.members):
            raise InputError(f"combine: {len(self.weights)} weights for {len(self.members)} members; give one each")

    @property
    def name(self) -> str:
        """`mean` without weights, else `combine`."""
        return "mean" if self.weights is None else self.NAME

    @property
    def fixed(self) -> frozenset[str]:
        """The name `mean` implies that there are no weights."""
        return frozenset({"weights"}) if self.weights is None else frozenset()

    @property
    def is_mean(self) -> bool:
        """Standardised scores are combined caption by caption."""
        return self.standardised

    def requires(self) -> tuple[Metric, ...]:
        """The members."""
        return self.members

    def corpus(self) -> Corpus | None:
        """The mean and deviation of each member's scores, to standardise by."""
        return ScoreMoments(self.members) if self.standardised else None

    @property
    def combined(self) -> tuple[str, ...]:
        """The score, and each member's."""
        return ("score", *map(str, self.members))

    def combine(self, scores: MemberScores, state: Any = None) -> dict[str, Floats]:
        """Σ w s, and each s."""
        each = [scores[member]["score"] for member in self.members]
        if state is not None:
            each = self._standardised(each, state)
        weights = self.weights or (1 / len(self.members),) * len(self.members)
        total = np.sum([weight * score for weight, score in zip(weights, each, strict=True)], axis=0)
        return dict(zip(self.combined, [total, *each], strict=True))

    def _standardised(self, scores: list[Floats], moments: Moments) -> list[Floats]:
        deviation = moments.deviation
        flat = [str(member) for member, spread in zip(self.members, deviation, strict=True) if spread == 0]
        if flat:
            warnings.warn(
                f"{self}: {', '.join(flat)} gives all {moments.count} captions the same score, so its z-score "
                "is 0; score more captions at once",
                CapmeterWarning,
                stacklevel=2,
            )
        away = [score - mean for score, mean in zip(scores, moments.mean, strict=True)]
        return [np.where(by > 0, gap / np.where(by > 0, by, 1), 0.0) for gap, by in zip(away, deviation, strict=True)]

    def facts(self, context: Context) -> dict[str, str]:
        """The members' facts and, if standardised, the number of captions standardised over."""
        facts = super().facts(context)
        if isinstance(context.state, Moments):
            facts["standardised"] = f"run/{context.state.count} captions"
        return facts
