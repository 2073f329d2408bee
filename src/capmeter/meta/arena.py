"""Arenas: systems ranked by battles of their captions, by people and by a metric (Cheng et al. 2025, CapArena).

People say of two systems' captions of an image which is better, or that they tie. A metric judges the same pairs by its
scores, and ties as many of them as people do (`stats.pair_accuracy.TieMatched`). Both sets of battles give
Bradley-Terry ratings; Spearman's and Kendall's correlation between the ratings by people and by the metric say whether
it ranks the systems as they do. Intervals resample images, people's and the metric's battles alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from capmeter.core.progress import task
from capmeter.judgments.prepared import Floats, JudgedPairs
from capmeter.meta.agreement import LENGTH, AgreementTable
from capmeter.meta.coefficient import SCALE, AgreementRow
from capmeter.meta.human_level import HUMAN
from capmeter.meta.metric_scores import caption_lengths, orient_scores
from capmeter.stats.bootstrap import Clusters, percentile_interval, resample_blocks
from capmeter.stats.correlation import Spearman
from capmeter.stats.kendall import Array, TauB
from capmeter.stats.pairs import TieMatched, bradley_terry, count_wins


def rank_systems(table: AgreementTable) -> list[AgreementRow]:
    """The ratings of the systems by people, by every metric and by length, each judge's best first; no rows where no
    systems battle.

    Correlations with people's ratings are of metrics alone, and only where there are three systems or more whose
    ratings differ. Battles are those of pairs that say who wrote the captions, under a protocol of agreement.
    """
    judgments = table.judgments
    if not isinstance(judgments, JudgedPairs) or not judgments.systems or judgments.protocol.statistic != "agreement":
        return []
    battles = _Battles.from_judgments(judgments)
    scores = {name: orient_scores(name, values, judgments.protocol) for name, values in table.items.items()}
    lengths = caption_lengths(judgments)
    if lengths is not None and LENGTH not in scores:
        scores[LENGTH] = lengths
    human_outcomes = np.sign(judgments.better).astype(np.int8)
    judges: dict[str, Callable[[Array], Array]] = {HUMAN: lambda weights: human_outcomes}
    for name, values in scores.items():
        matched = TieMatched(values[judgments.first] - values[judgments.second], judgments.better)
        judges[name] = lambda weights, matched=matched: matched.outcomes(weights)[0]  # type: ignore[misc]
    ratings = {name: battles.rate(outcomes, table) for name, outcomes in judges.items()}
    return [row for name in judges for row in _rating_rows(name, battles.names, ratings, table.level)]


@dataclass(frozen=True, eq=False)
class _Battles:
    """Who met whom: the systems' names, and the numbers of both systems of each pair."""

    names: tuple[str, ...]
    first: Array
    second: Array
    clusters: Clusters

    @classmethod
    def from_judgments(cls, judgments: JudgedPairs) -> _Battles:
        system_names = tuple(sorted({system_name for pair in judgments.systems for system_name in pair}))
        number = {system_name: k for k, system_name in enumerate(system_names)}
        first, second = (np.array([number[pair[side]] for pair in judgments.systems], np.int64) for side in (0, 1))
        return cls(system_names, first, second, Clusters(judgments.clusters))

    def rate(self, outcomes: Callable[[Array], Array], table: AgreementTable) -> Floats:
        """The ratings by all battles, then by each resample: float64[1 + resamples, systems]."""
        rating_rows = [bradley_terry(self._wins(outcomes, np.ones(len(self.first), np.int64)))]
        with task("rating systems", total=table.resamples) as advance:
            for block in resample_blocks(len(self.clusters), table.resamples, table.seed):
                for counts in block:
                    wins = self._wins(outcomes, counts[self.clusters.codes])
                    rating_rows.append(bradley_terry(wins, start=rating_rows[0]))
                    advance(1)
        return np.stack(rating_rows)

    def _wins(self, outcomes: Callable[[Array], Array], weights: Array) -> Array:
        return count_wins(self.first, self.second, outcomes(weights), weights, len(self.names))


def _rating_rows(
    judge_name: str, system_names: tuple[str, ...], ratings: Mapping[str, Floats], level: float
) -> list[AgreementRow]:
    judge_ratings, human_ratings = ratings[judge_name], ratings[HUMAN]
    rows = []
    for rank, system_index in enumerate(np.argsort(-judge_ratings[0], kind="stable").tolist(), 1):
        low, high = percentile_interval(judge_ratings[1:, system_index], level)
        rating = float(judge_ratings[0, system_index])
        rows.append(
            AgreementRow("arena", judge_name, "rating", rating, low, high, subset=system_names[system_index], rank=rank)
        )
    varies = (rows[0].value or 0.0) > (rows[-1].value or 0.0)
    if judge_name != HUMAN and len(system_names) > 2 and varies and np.ptp(human_ratings[0]) > 0:
        for name, coefficient in (("spearman", Spearman), ("kendall", TauB)):
            values = [
                coefficient(x, y)() if np.ptp(x) and np.ptp(y) else 0.0
                for x, y in zip(human_ratings.round(6), judge_ratings.round(6), strict=True)
            ]
            low, high = percentile_interval(np.array(values[1:]), level)
            n = len(system_names)
            rows.append(
                AgreementRow("arena", judge_name, name, SCALE * values[0], SCALE * low, SCALE * high, n, other=HUMAN)
            )
    return rows
