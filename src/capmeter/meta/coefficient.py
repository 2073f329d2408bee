"""A protocol's coefficient: its statistic of scores and judgments, with bootstrap weights; and rows of values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from capmeter.core.errors import ProtocolError
from capmeter.judgments.prepared import Floats, JudgedPairs, Points, PreparedJudgments, Systems
from capmeter.judgments.protocol import Protocol
from capmeter.stats.bootstrap import Interval
from capmeter.stats.correlation import MeanOfGroups, Pearson, Spearman
from capmeter.stats.kendall import TauA, TauB, TauC
from capmeter.stats.pairs import GroupMean, PairAccuracy, TieCalibrated, TieMatched
from capmeter.stats.ratios import AveragePrecision, RocArea

SCALE = 100
"""Coefficients are given in hundredths, as they are published."""


@dataclass(frozen=True, slots=True)
class AgreementRow:
    """One measured number, in the long table of an evaluation; coefficients, differences and shares are x 100.

    Attributes:
        analysis: what was done: results, categories, length, human_level, differences, published, given_length …
        metric: the metric, or judge.
        statistic: what the value is.
        value, low, high: with its interval. None: not defined.
        n: number of judgments.
        other: the metric that it is compared with.
        subset: the category, or the system that is rated.
        p, rank: of significance.
        source: of a published value.
        note: a remark, such as why there is no value.
        signature: everything that affects the metric's scores.
    """

    analysis: str
    metric: str
    statistic: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    other: str = ""
    subset: str = "all"
    p: float | None = None
    rank: int | None = None
    source: str = ""
    note: str = ""
    signature: str = ""

    def to_dict(self) -> dict[str, Any]:
        """What the row has, as JSON values; of coefficients also that they are not defined."""
        entry = {key: value for key, value in asdict(self).items() if value not in (None, "", "all")}
        del entry["analysis"]
        return {"metric": self.metric, "value": self.value} | entry

    def list_categories(self, values: Mapping[str, float]) -> list[AgreementRow]:
        """The rows of the metric's categories."""
        return [AgreementRow("categories", self.metric, self.statistic, each, subset=of) for of, each in values.items()]


CORRELATIONS = ("tau-a", "tau-b", "tau-c", "pearson", "spearman")
"""Statistics around 0."""


STATISTICS: Mapping[str, Callable[[Any, Any], Any]] = {
    "tau-a": TauA,
    "tau-b": TauB,
    "tau-c": TauC,
    "pearson": Pearson,
    "spearman": Spearman,
    "accuracy-eq": TieCalibrated,
    # of finding what is rated 0 rather than 1 by low scores
    "average-precision": lambda human, scores: AveragePrecision(1 - human, -scores),
    "auc": RocArea,
}


def make_coefficient(protocol: Protocol, human: Floats, scores: Floats, groups: Sequence[str] | None) -> Any:
    """The protocol's statistic of judgments and scores, point by point; with groups, the mean over groups.

    Args:
        protocol: names the statistic.
        human: judgments (points).
        scores: of the same points (points).
        groups: the group of each point; None: one group.
    """
    if protocol.statistic == "localisation":
        return GroupMean(scores, groups)
    if protocol.statistic == "accuracy-eq":
        return TieCalibrated(human, scores, groups)
    statistic = STATISTICS[protocol.statistic]
    return MeanOfGroups(statistic, human, scores, groups) if groups else statistic(human, scores)


def make_statistic(judgments: PreparedJudgments, scores: Floats) -> Any:
    """The protocol's statistic of these scores, which takes bootstrap weights of the judgments."""
    protocol = judgments.protocol
    if isinstance(judgments, JudgedPairs):
        return _pair_statistic(judgments, scores[judgments.first] - scores[judgments.second])
    if protocol.statistic in ("accuracy", "agreement"):
        raise ProtocolError(
            f"{judgments.benchmark} has ratings, for which {protocol.statistic} is not defined; use accuracy-eq"
        )
    if isinstance(judgments, Points):
        return make_coefficient(protocol, judgments.human, scores[judgments.rows], judgments.groups)
    if isinstance(judgments, Systems):
        return make_coefficient(protocol, judgments.human, scores, judgments.groups)
    raise ProtocolError(f"{judgments.benchmark} has no ratings")


def _pair_statistic(judgments: JudgedPairs, score_gaps: Floats) -> Any:
    """The statistic of differences of scores, score(a) - score(b); a correlation needs degrees of preference."""
    protocol, better = judgments.protocol, judgments.better
    if protocol.statistic == "accuracy":
        return PairAccuracy(score_gaps, np.sign(better), judgments.groups, protocol.ties, protocol.seed)
    if protocol.statistic == "agreement":
        return TieMatched(score_gaps, better, judgments.groups)
    if protocol.statistic in CORRELATIONS and len(set(np.abs(better).tolist()) - {0.0}) > 1:
        return make_coefficient(protocol, better, score_gaps, judgments.groups)
    raise ProtocolError(
        f"{judgments.benchmark} has pairs, for which {protocol.statistic} is not defined; use accuracy, or agreement "
        "to count people's ties too"
    )


def category_values(statistic: Any, judgments: PreparedJudgments) -> dict[str, float]:
    """The value x 100 of each category; empty without categories, and for correlations within images."""
    if isinstance(statistic, GroupMean) and judgments.groups is not None:
        return dict(zip(statistic.groups, (SCALE * statistic.by_group()[0]).tolist(), strict=True))
    if isinstance(statistic, MeanOfGroups) and judgments.protocol.by != "image_id":
        return {category_name: SCALE * value for category_name, value in statistic.by_group().items()}
    return {}


def scale_interval(interval: Interval) -> tuple[float, float, float]:
    """Value, low and high x 100."""
    return SCALE * interval.value, SCALE * interval.low, SCALE * interval.high
