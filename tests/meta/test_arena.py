"""Arenas: ratings of systems by people and by metrics."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kendalltau, spearmanr

from capmeter.judgments.prepared import JudgedPairs, RatedPair, prepare_pairs
from capmeter.judgments.protocol import Protocol
from capmeter.meta.agreement import measure_agreement
from capmeter.meta.arena import rank_systems

STRENGTHS = {"one": 3.0, "two": 2.0, "three": 1.0, "four": 0.0}


def arena(number: int = 200, statistic: str = "agreement") -> JudgedPairs:
    random = np.random.default_rng(0)
    rows = []
    for k in range(number):
        a, b = random.choice(list(STRENGTHS), 2, replace=False).tolist()
        gap = STRENGTHS[a] - STRENGTHS[b] + random.normal(0, 2)
        better = 0 if abs(gap) < 0.5 else np.sign(gap)
        rows.append(
            RatedPair(str(k), str(k // 2), ("a dog " * int(1 + STRENGTHS[a]), "a cat"), ("r",), better, systems=(a, b))
        )
    return prepare_pairs("mine", rows, Protocol(name="p", statistic=statistic))  # type: ignore[arg-type]


def scores(judgments: JudgedPairs, noise: float) -> np.ndarray:
    values = np.empty(len(judgments.ids))
    random = np.random.default_rng(1)
    for k, (a, b) in enumerate(judgments.systems):
        values[judgments.first[k]], values[judgments.second[k]] = STRENGTHS[a], STRENGTHS[b]
    return values + random.normal(0, noise, len(values))


def test_a_good_metric_ranks_systems_as_people_do() -> None:
    judgments = arena()
    report = measure_agreement(
        judgments, {"good": scores(judgments, 1.0), "bad": -scores(judgments, 1.0)}, resamples=50
    )
    rows = rank_systems(report)
    assert list(dict.fromkeys(row.metric for row in rows)) == ["human", "good", "bad", "length"]
    ratings = {
        judge: [row for row in rows if (row.metric, row.statistic) == (judge, "rating")] for judge in ("human", "bad")
    }
    assert [row.subset for row in ratings["human"]] == list(STRENGTHS)
    assert [row.subset for row in ratings["bad"]] == list(STRENGTHS)[::-1] and [row.rank for row in ratings["bad"]] == [
        1,
        2,
        3,
        4,
    ]
    correlations = {(row.metric, row.statistic): row.value for row in rows if row.other == "human"}
    assert correlations["good", "spearman"] == pytest.approx(100) and correlations["bad", "kendall"] == -100
    best = ratings["human"][0]
    assert best.low < best.value < best.high and ("human", "spearman") not in correlations
    assert sum(row.value for row in ratings["human"]) == pytest.approx(4000)


def test_correlations_are_scipys_of_the_ratings() -> None:
    judgments = arena()
    report = measure_agreement(judgments, {"m": np.random.default_rng(5).normal(size=len(judgments.ids))}, resamples=20)
    rows = rank_systems(report)
    values = {(row.metric, row.subset if row.statistic == "rating" else row.statistic): row.value for row in rows}
    pairs = [[values[judge, name] for name in STRENGTHS] for judge in ("human", "m")]
    assert values["m", "spearman"] == pytest.approx(100 * spearmanr(*pairs).statistic)
    assert values["m", "kendall"] == pytest.approx(100 * kendalltau(*pairs).statistic)


def test_only_battles_of_named_systems_are_an_arena() -> None:
    judgments = arena(statistic="accuracy")
    assert rank_systems(measure_agreement(judgments, {"m": scores(judgments, 1)}, resamples=10)) == []
    unnamed = [RatedPair(str(k), str(k), ("a", "b c"), ("r",), 1) for k in range(4)]
    judgments = prepare_pairs("mine", unnamed, Protocol(name="p", statistic="agreement"))
    assert judgments.systems == ()
    assert rank_systems(measure_agreement(judgments, {"m": np.arange(8.0)}, resamples=10)) == []


def test_a_metric_that_ties_every_pair_has_no_correlation() -> None:
    judgments = arena()
    rows = rank_systems(measure_agreement(judgments, {"m": np.ones(len(judgments.ids))}, resamples=10))
    assert {(row.statistic, round(row.value)) for row in rows if row.metric == "m"} == {("rating", 1000)}
