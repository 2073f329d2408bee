"""Are two metrics redundant, and are they better together?

Spearman's ρ between metrics on the judged captions says how similarly they rank; the sum of two standardised metrics,
evaluated like any metric, says whether one adds to the other. The weights are equal on purpose: weights fitted to the
judgments would be trained on the test data. Three or more are named as one metric: `mean(a,b,c,standardised=true)`.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

from capmeter.core.errors import InputError
from capmeter.judgments.prepared import Floats
from capmeter.meta.agreement import AgreementTable, is_preset, measure_agreement, published_rows
from capmeter.meta.coefficient import SCALE, AgreementRow
from capmeter.meta.metric_scores import orient_scores
from capmeter.meta.published import sum_of
from capmeter.stats.correlation import spearman


def varying_scores(table: AgreementTable) -> dict[str, Floats]:
    """The scores of the metrics that have a value, best first."""
    return {row.metric: table.items[row.metric] for row in table.results if row.value is not None}


def rank_correlations(table: AgreementTable) -> list[AgreementRow]:
    """Spearman's ρ between every two metrics."""
    return [
        AgreementRow("spearman", a, "spearman", SCALE * spearman(first, second), other=b)
        for (a, first), (b, second) in combinations(varying_scores(table).items(), 2)
    ]


def combine_pairs(table: AgreementTable) -> list[AgreementRow]:
    """The sum of every two standardised metrics, evaluated on the same resamples, the best first; with its gain over
    the better of the two, and its published value.
    """
    scores = varying_scores(table)
    if len(scores) < 2:
        raise InputError(f"a combination needs two metrics that vary, but there is {', '.join(scores) or 'none'}")
    oriented_scores = {name: orient_scores(name, values, table.protocol) for name, values in scores.items()}
    standardised_scores = {name: (values - values.mean()) / values.std() for name, values in oriented_scores.items()}
    score_sums = {f"{a} + {b}": standardised_scores[a] + standardised_scores[b] for a, b in combinations(scores, 2)}
    combined_table = measure_agreement(
        table.judgments, {**scores, **score_sums}, resamples=table.resamples, seed=table.seed, level=table.level
    )
    sums, details = [], []
    for a, b in combinations(scores, 2):  # a is the better of the two: the results came best first
        name = f"{a} + {b}"
        if combined_table[name].value is not None:
            sums.append(replace(combined_table[name], analysis="combinations", rank=None))
            details.append(replace(combined_table.difference(name, a), analysis="gains"))
            if is_preset(table.benchmark, table.protocol):
                details += [replace(row, metric=name) for row in published_rows(table.judgments, sum_of(a, b))]
    return [*sorted(sums, key=lambda row: -(row.value or 0.0)), *details]
