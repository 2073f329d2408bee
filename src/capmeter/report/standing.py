"""Which systems lead under a metric, and which differences could be chance.

Images are drawn with replacement (the same draws for all systems), which gives each score its interval and each
difference of two systems its p; p values of one metric's pairs are adjusted after Holm. The *best* are the system with
the highest score and all that are not significantly below it.

>>> from capmeter.metrics.evaluation import score
>>> right = score(candidates=["a dog runs", "a cat sits"] * 9, references=[["a dog runs"], ["a cat sits"]] * 9,
...               metrics="rouge-l")
>>> wrong = score(candidates=["a cow", "a bus"] * 9, references=[["a dog runs"], ["a cat sits"]] * 9, metrics="rouge-l")
>>> found = standings({"wrong": wrong, "right": right}, draws=200)["rouge-l"]
>>> sorted(found.best), sorted(found.beats["right"]), found.intervals["right"]
(['right'], ['wrong'], (1.0, 1.0))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from capmeter.metrics.base import Floats
from capmeter.metrics.scores import Results
from capmeter.stats.bootstrap import Interval, difference, draw_blocks, percentile
from capmeter.stats.multiple import holm

ALPHA = 0.05
_DRAWS_FOR_EACH_PAIR = 100


@dataclass(frozen=True)
class Standing:
    """How the systems stand under one metric.

    `intervals`: of each score, where it could be drawn; `beats`: for each system those that are significantly below it;
    `best`: the highest and all that are not significantly below it. Without a comparison both are empty: a single
    system, systems that were scored on different images, or results without the rows to draw from.
    """

    intervals: dict[str, tuple[float, float]]
    beats: dict[str, frozenset[str]]
    best: frozenset[str]


def standings(
    systems: Mapping[str, Results], *, level: float = 0.95, draws: int = 1000, seed: int = 0
) -> dict[str, Standing]:
    """The standing of the systems under each metric that any of them was scored with.

    Intervals come from `draws` draws. Of many systems more are drawn for the comparisons: p cannot be smaller than the
    draws allow, and after the adjustment for all pairs nothing could be significant.
    """
    pairs = len(systems) * (len(systems) - 1) // 2
    drawn = _drawn(systems, max(draws, _DRAWS_FOR_EACH_PAIR * pairs), seed)
    metrics = dict.fromkeys(metric for results in systems.values() for metric in results)
    comparable = same_images(systems)
    return {metric: _standing(systems, metric, drawn, draws, level, comparable) for metric in metrics}


def same_images(systems: Mapping[str, Results]) -> bool:
    """Whether all systems were scored on captions of the same images, so that their draws are pairs."""
    first, *others = (set(results.ids.images) for results in systems.values())
    return all(other == first for other in others)


def _drawn(systems: Mapping[str, Results], draws: int, seed: int) -> dict[tuple[str, str], Floats]:
    """The corpus scores under each draw, by system and metric; images are drawn by name, whatever their order."""
    comparable = same_images(systems)
    universe = _clusters_of(next(iter(systems.values())))
    found: dict[tuple[str, str], Floats] = {}
    for system, results in systems.items():
        names = _clusters_of(results)
        order: npt.NDArray[np.int64] | None = None
        if comparable and names != universe:
            place = {name: k for k, name in enumerate(universe)}
            order = np.array([place[name] for name in names])
        blocks: dict[str, list[Floats]] = {
            metric: [] for metric, scores in results.items() if scores.metric is not None and scores.values is not None
        }
        for weights in draw_blocks(len(names), draws, seed):
            mine = weights if order is None else weights[:, order]
            for metric, values in blocks.items():
                values.append(results[metric].drawn(mine, results.ids.clusters))
        found.update({(system, metric): np.concatenate(values) for metric, values in blocks.items()})
    return found


def _clusters_of(results: Results) -> list[str]:
    return list(dict.fromkeys(results.ids.images))


def _standing(
    systems: Mapping[str, Results],
    metric: str,
    drawn: Mapping[tuple[str, str], Floats],
    draws: int,
    level: float,
    comparable: bool,
) -> Standing:
    scored = {name: results[metric].score for name, results in systems.items() if metric in set(results)}
    intervals = {
        name: Interval(scored[name], *percentile(drawn[name, metric][:draws], level), level, drawn[name, metric])
        for name in scored
        if (name, metric) in drawn
    }
    bounds = {name: (each.low, each.high) for name, each in intervals.items()}
    if not comparable or len(scored) < 2 or len(intervals) < len(scored):
        return Standing(bounds, {name: frozenset() for name in scored}, frozenset())
    pairs = list(combinations(scored, 2))
    adjusted = holm([difference(intervals[a], intervals[b])[1] for a, b in pairs])
    beats: dict[str, set[str]] = {name: set() for name in scored}
    for (a, b), p in zip(pairs, adjusted.tolist(), strict=True):
        if p < ALPHA and scored[a] != scored[b]:
            winner, loser = (a, b) if scored[a] > scored[b] else (b, a)
            beats[winner].add(loser)
    first = max(scored, key=lambda name: scored[name])
    return Standing(
        bounds, {name: frozenset(beats[name]) for name in scored}, frozenset(set(scored) - beats[first] | {first})
    )
