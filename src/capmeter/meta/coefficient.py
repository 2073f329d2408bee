"""A protocol's coefficient: its statistic of scores and judgments, which takes bootstrap weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from capmeter.errors import ProtocolError
from capmeter.judgments.judged import Floats, Judgments, Pairs, Points, Systems
from capmeter.judgments.protocol import Protocol
from capmeter.stats.correlation import Pearson, Spearman
from capmeter.stats.groups import MeanOfGroups
from capmeter.stats.kendall import TauA, TauB, TauC
from capmeter.stats.pair_accuracy import PairAccuracy, TieCalibrated

STATISTICS: dict[str, Callable[[Any, Any], Any]] = {
    "tau-a": TauA,
    "tau-b": TauB,
    "tau-c": TauC,
    "pearson": Pearson,
    "spearman": Spearman,
    "accuracy-eq": TieCalibrated,
}


def coefficient(protocol: Protocol, human: Floats, judged: Floats, groups: Sequence[str] | None) -> Any:
    """The protocol's statistic of judgments and scores, point by point; with groups, the mean over groups."""
    if protocol.statistic == "accuracy-eq":
        return TieCalibrated(human, judged, groups)
    make = STATISTICS[protocol.statistic]
    return MeanOfGroups(make, human, judged, groups) if groups else make(human, judged)


def statistic(judgments: Judgments, values: Floats) -> Any:
    """The protocol's statistic of these scores, which takes bootstrap weights of the judgments."""
    protocol = judgments.protocol
    if isinstance(judgments, Pairs):
        if protocol.statistic != "accuracy":
            raise ProtocolError(
                f"{judgments.benchmark} has pairs, for which {protocol.statistic} is not defined; use accuracy"
            )
        gaps = values[judgments.first] - values[judgments.second]
        return PairAccuracy(gaps, judgments.better, judgments.groups, protocol.ties, protocol.seed)
    if protocol.statistic == "accuracy":
        raise ProtocolError(f"{judgments.benchmark} has ratings, for which accuracy is not defined; use accuracy-eq")
    if isinstance(judgments, Points):
        return coefficient(protocol, judgments.human, values[judgments.rows], judgments.groups)
    if isinstance(judgments, Systems):
        return coefficient(protocol, judgments.human, values, judgments.groups)
    raise ProtocolError(f"{judgments.benchmark} has no ratings")
