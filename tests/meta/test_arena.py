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
    rankings = {each.judge: each for each in rank_systems(report)}
    assert list(rankings) == ["human", "good", "bad", "length"]
    assert [each.system for each in rankings["human"].ratings] == list(STRENGTHS)
    assert [each.system for each in rankings["bad"].ratings] == list(STRENGTHS)[::-1]
    good, bad = rankings["good"].spearman, rankings["bad"].kendall
    assert good is not None and good.value == pytest.approx(1) and bad is not None and bad.value == -1
    best = rankings["human"].ratings[0]
    assert best.low < best.rating < best.high and rankings["human"].spearman is None
    assert sum(each.rating for each in rankings["human"].ratings) == pytest.approx(4000)


def test_correlations_are_scipys_of_the_ratings() -> None:
    judgments = arena()
    report = measure_agreement(judgments, {"m": np.random.default_rng(5).normal(size=len(judgments.ids))}, resamples=20)
    rankings = {each.judge: each for each in rank_systems(report)}
    by_name = [{each.system: each.rating for each in rankings[judge].ratings} for judge in ("human", "m")]
    pairs = [[ratings[name] for name in STRENGTHS] for ratings in by_name]
    spearman, kendall = rankings["m"].spearman, rankings["m"].kendall
    assert spearman is not None and spearman.value == pytest.approx(spearmanr(*pairs).statistic)
    assert kendall is not None and kendall.value == pytest.approx(kendalltau(*pairs).statistic)


def test_only_battles_of_named_systems_are_an_arena() -> None:
    judgments = arena(statistic="accuracy")
    assert rank_systems(measure_agreement(judgments, {"m": scores(judgments, 1)}, resamples=10)) == ()
    unnamed = [RatedPair(str(k), str(k), ("a", "b c"), ("r",), 1) for k in range(4)]
    judgments = prepare_pairs("mine", unnamed, Protocol(name="p", statistic="agreement"))
    assert judgments.systems == ()
    assert rank_systems(measure_agreement(judgments, {"m": np.arange(8.0)}, resamples=10)) == ()


def test_a_metric_that_ties_every_pair_has_no_correlation() -> None:
    judgments = arena()
    (_, flat, _) = rank_systems(measure_agreement(judgments, {"m": np.ones(len(judgments.ids))}, resamples=10))
    assert flat.spearman is None and {round(each.rating) for each in flat.ratings} == {1000}
