"""Length held constant: what is left of an agreement with human judgments, and of a difference between two systems?

People prefer longer captions, and so do many metrics: agreement may be nothing but length (Cheng et al. 2025, CapArena:
length alone agrees with people better than most metrics). With l the number of words of a caption:

* Correlations (rated captions, systems, degrees of preference): the partial correlation given l, Pearson's, Spearman's,
  or Kendall's of three τb (also where the protocol has τa, τc, accuracy-eq or AUC). With groups, from the three means
  over groups.
* Pairs: the mean of the accuracy on pairs of which people prefer the longer caption, and that on pairs of which they
  prefer the shorter one; equal scores are half right. Length has exactly 50. Pairs of equal length, and those that
  people tie, do not count.
* Two systems: d = a + b·l by least squares over images, d the difference of the captions' scores and l that of their
  words. `a` is the difference between captions of equal length.

Length has no value itself where it is held constant in a correlation.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from capmeter.core.errors import InputError, ProtocolError
from capmeter.judgments.prepared import Floats, JudgedPairs, Points, PreparedJudgments, Systems
from capmeter.judgments.protocol import Protocol
from capmeter.meta.agreement import AgreementTable
from capmeter.meta.coefficient import CORRELATIONS, AgreementRow, make_coefficient, scale_interval
from capmeter.meta.comparison import EqualLengthDifference, SystemComparison
from capmeter.meta.metric_scores import caption_lengths, orient_scores
from capmeter.stats.bootstrap import Clusters, bootstrap_interval, mean_statistic
from capmeter.stats.correlation import Intercept, PartialCorrelation
from capmeter.stats.pairs import PairAccuracy

_PAIRS = ("accuracy", "agreement")


def check_length_control(protocol: Protocol, benchmark: str) -> None:
    """Raises `ProtocolError` where nothing is defined with length held constant under this protocol's statistic."""
    if protocol.statistic not in (*CORRELATIONS, *_PAIRS, "accuracy-eq", "auc"):
        raise ProtocolError(
            f"{benchmark}: no {protocol.statistic} with length held constant is defined; choose another protocol or "
            "omit --control length"
        )


def control_length(table: AgreementTable) -> list[AgreementRow]:
    """What is left of every metric and of length with length held constant, on the same resamples as the table's.

    A metric that length determines, or that has no value, has none.

    Raises:
        ProtocolError: the benchmark has no captions, or captions of one length only; or the protocol's statistic is the
            average precision or a localisation, for which nothing is defined.
    """
    judgments = table.judgments
    lengths = caption_lengths(judgments)
    if lengths is None:
        raise ProtocolError(
            f"{table.benchmark} has no captions here, so their length is unknown; omit --control length"
        )
    if len(set(lengths.tolist())) < 2:
        raise ProtocolError(
            f"every caption of {table.benchmark} has {lengths[0]:g} words: length is constant already; "
            "omit --control length"
        )
    check_length_control(judgments.protocol, table.benchmark)
    rows = []
    for row in (*table.results, *table.of("length")):
        controlled = AgreementRow("given_length", row.metric, row.statistic)
        scores = lengths if row.analysis == "length" else table.items[row.metric]
        oriented_scores = scores if row.analysis == "length" else orient_scores(row.metric, scores, table.protocol)
        with suppress(InputError):
            if row.value is not None:
                statistic, judgment_rows = _controlled_statistic(judgments, oriented_scores, lengths)
                clusters = [judgments.clusters[each] for each in judgment_rows.tolist()]
                interval = bootstrap_interval(statistic, clusters, table.resamples, table.seed, table.level)
                value, low, high = scale_interval(interval)
                controlled = replace(controlled, value=value, low=low, high=high, n=len(judgment_rows))
        rows.append(controlled)
    return rows


def _controlled_statistic(judgments: PreparedJudgments, scores: Floats, lengths: Floats) -> tuple[Any, Any]:
    """The statistic with length held constant, and the judgments that it takes weights of."""
    protocol, judgment_rows = judgments.protocol, np.arange(len(judgments))
    if isinstance(judgments, JudgedPairs):
        score_gaps, length_gaps = (values[judgments.first] - values[judgments.second] for values in (scores, lengths))
        if protocol.statistic in CORRELATIONS:
            return _partial(protocol, judgments.better, score_gaps, length_gaps, judgments.groups), judgment_rows
        preferred_side = np.sign(judgments.better)
        judgment_rows = np.flatnonzero(preferred_side * length_gaps)
        prefers_longer = preferred_side[judgment_rows] * length_gaps[judgment_rows] > 0
        if prefers_longer.all() or not prefers_longer.any():
            raise InputError("people always prefer the longer caption, or the shorter one")
        return PairAccuracy(
            score_gaps[judgment_rows], preferred_side[judgment_rows], prefers_longer.tolist()
        ), judgment_rows
    if isinstance(judgments, Points):
        caption_rows = judgments.rows
        return _partial(
            protocol, judgments.human, scores[caption_rows], lengths[caption_rows], judgments.groups
        ), judgment_rows
    if isinstance(judgments, Systems):
        return _partial(protocol, judgments.human, scores, lengths, judgments.groups), judgment_rows
    raise ProtocolError(f"{judgments.benchmark} has no ratings")


def _partial(
    protocol: Protocol, human: Floats, scores: Floats, lengths: Floats, groups: tuple[str, ...] | None
) -> PartialCorrelation:
    if protocol.statistic not in ("pearson", "spearman"):
        protocol = replace(protocol, statistic="tau-b")
    pairs = combinations((human, scores, lengths), 2)
    return PartialCorrelation(*(make_coefficient(protocol, x, y, groups) for x, y in pairs))


def with_equal_lengths(comparison: SystemComparison) -> SystemComparison:
    """The comparison with the difference of every pair of systems between captions of equal length.

    It is of the captions' own scores, whose mean a corpus score such as BLEU's is not. A metric or pair without any
    difference in length, or with the same one throughout, has the plain mean, or none.
    """
    lengths = {
        system_name: np.array([len(captions[caption_id].candidate.split()) for caption_id in captions.ids], np.float64)
        for system_name, captions in comparison.captions.items()
    }
    clusters = Clusters(next(iter(comparison.captions.values())).image_ids)
    differences: dict[str, tuple[EqualLengthDifference, ...]] = {}
    for metric_name in comparison:
        scores = {system_name: results[metric_name].items.array for system_name, results in comparison.results.items()}
        system_pairs = []
        for first_name, second_name in combinations(comparison.systems, 2):
            length_gaps, score_gaps = (
                lengths[first_name] - lengths[second_name],
                scores[first_name] - scores[second_name],
            )
            try:
                statistic = Intercept(length_gaps, score_gaps)
            except InputError:
                continue
            interval, of_mean = (
                bootstrap_interval(each, clusters, comparison.resamples, comparison.seed, comparison.level)
                for each in (statistic, mean_statistic(score_gaps))
            )
            system_pairs.append(
                EqualLengthDifference(
                    first=first_name,
                    second=second_name,
                    difference=float(score_gaps.mean()),
                    words=float(length_gaps.mean()),
                    at_equal_length=interval.value,
                    low=interval.low,
                    high=interval.high,
                    extrapolated=bool(length_gaps.min() > 0 or length_gaps.max() < 0),
                    has_sign=of_mean.low > 0 or of_mean.high < 0,
                )
            )
        differences[metric_name] = tuple(system_pairs)
    return replace(comparison, equal_lengths=differences)
