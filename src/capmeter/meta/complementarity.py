"""Are two metrics redundant, and are they better together?

Spearman's ρ between metrics on the judged captions says how similarly they rank; the sum of two standardised metrics,
evaluated like any metric, says whether one adds to the other. The weights are equal on purpose: weights fitted to the
judgments would be trained on the test data. Three or more are named as one metric: `mean(a,b,c,standardised=true)`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from capmeter.core.errors import InputError
from capmeter.judgments.prepared import Floats
from capmeter.meta.agreement import Agreement, AgreementReport, MetricDifference, is_preset, measure_agreement
from capmeter.meta.metric_scores import orient_scores
from capmeter.meta.published import published, sum_of
from capmeter.stats.correlation import spearman


@dataclass(frozen=True)
class MetricPair:
    """The sum of two standardised metrics: its agreement with human judgments, and its gain over the better of both."""

    first: str
    second: str
    agreement: Agreement
    gain: MetricDifference


def varying_scores(report: AgreementReport) -> dict[str, Floats]:
    """The scores of the metrics that have a value, best first."""
    return {each.metric: report.items[each.metric] for each in report.results if each.value is not None}


def rank_correlations(report: AgreementReport) -> tuple[tuple[str, ...], Floats]:
    """The metrics' names, and Spearman's ρ between every two of them: float64[metrics, metrics]."""
    scores = varying_scores(report)
    metric_names = tuple(scores)
    correlation_table = np.eye(len(metric_names))
    for i, j in combinations(range(len(metric_names)), 2):
        correlation_table[i, j] = correlation_table[j, i] = spearman(scores[metric_names[i]], scores[metric_names[j]])
    return metric_names, correlation_table


def combine_pairs(report: AgreementReport) -> tuple[MetricPair, ...]:
    """The sum of every two standardised metrics, evaluated on the same resamples; the best first."""
    scores = varying_scores(report)
    if len(scores) < 2:
        raise InputError(f"a combination needs two metrics that vary, but there is {', '.join(scores) or 'none'}")
    preset = is_preset(report.benchmark, report.protocol)
    oriented_scores = {name: orient_scores(name, values, report.protocol) for name, values in scores.items()}
    standardised_scores = {name: (values - values.mean()) / values.std() for name, values in oriented_scores.items()}
    score_sums = {f"{a} + {b}": standardised_scores[a] + standardised_scores[b] for a, b in combinations(scores, 2)}
    combined_report = measure_agreement(
        report.judgments, {**scores, **score_sums}, resamples=report.resamples, seed=report.seed, level=report.level
    )
    metric_pairs = []
    for a, b in combinations(scores, 2):  # a is the better of the two: the results came best first
        name = f"{a} + {b}"
        if combined_report[name].value is not None:
            published_value = published(report.benchmark, report.protocol.name, sum_of(a, b)) if preset else None
            agreement = replace(combined_report[name], published=published_value)
            metric_pairs.append(MetricPair(a, b, agreement, combined_report.difference(name, a)))
    return tuple(sorted(metric_pairs, key=lambda each: -(each.agreement.value or 0.0)))
