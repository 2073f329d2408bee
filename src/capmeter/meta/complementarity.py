"""Are two metrics redundant, and are they better together?

Spearman's ρ between metrics on the judged captions says how similarly they rank; the sum of two standardised metrics,
evaluated like any metric, says whether one adds to the other. The weights are equal on purpose: weights fitted to the
judgments would be trained on the test data. Three or more are named as one metric: `mean(a,b,c,standardised=true)`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from capmeter.errors import InputError
from capmeter.judgments.judged import Floats
from capmeter.meta.agreement import Agreement, Difference, Report, is_preset, judge
from capmeter.meta.published import published
from capmeter.meta.published.table import sum_of
from capmeter.stats.correlation import spearman


@dataclass(frozen=True)
class Combination:
    """The sum of two standardised metrics: its agreement with people, and its gain over the better of the two."""

    first: str
    second: str
    agreement: Agreement
    gain: Difference


def varied(report: Report) -> dict[str, Floats]:
    """The scores of the metrics that have a value, best first."""
    return {each.metric: report.items[each.metric] for each in report.results if each.value is not None}


def rank_correlations(report: Report) -> tuple[tuple[str, ...], Floats]:
    """The metrics' names, and Spearman's ρ between every two of them: float64[metrics, metrics]."""
    scores = varied(report)
    names = tuple(scores)
    table = np.eye(len(names))
    for i, j in combinations(range(len(names)), 2):
        table[i, j] = table[j, i] = spearman(scores[names[i]], scores[names[j]])
    return names, table


def combined(report: Report) -> tuple[Combination, ...]:
    """The sum of every two standardised metrics, evaluated on the same resamples; the best first."""
    scores = varied(report)
    if len(scores) < 2:
        raise InputError(f"a combination needs two metrics that vary, but there is {', '.join(scores) or 'none'}")
    unchanged = is_preset(report.benchmark, report.protocol)
    standard = {name: (values - values.mean()) / values.std() for name, values in scores.items()}
    sums = {f"{a} + {b}": standard[a] + standard[b] for a, b in combinations(scores, 2)}
    judged = judge(
        report.judgments, {**scores, **sums}, resamples=report.resamples, seed=report.seed, level=report.level
    )
    found = []
    for a, b in combinations(scores, 2):  # a is the better of the two: the results came best first
        name = f"{a} + {b}"
        if judged[name].value is not None:
            known = published(report.benchmark, report.protocol.name, sum_of(a, b)) if unchanged else None
            agreement = replace(judged[name], published=known)
            found.append(Combination(a, b, agreement, judged.difference(name, a)))
    return tuple(sorted(found, key=lambda each: -(each.agreement.value or 0.0)))
