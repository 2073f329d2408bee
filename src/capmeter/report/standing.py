"""Which systems lead under a metric, and which differences could be chance.

Images drawn with replacement give each score its interval. Each difference of two systems is tested as `capmeter
compare` does, by a paired permutation test: images change places between the two. The p of one metric's pairs are
adjusted after Holm. The *best* are the system with the highest score and all that are not significantly below it.

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

import numpy as np
import numpy.typing as npt

from capmeter.metrics.base import Floats
from capmeter.metrics.scores import Results, Scores
from capmeter.stats.bootstrap import draw_blocks, percentile
from capmeter.stats.multiple import holm
from capmeter.stats.permutation import Contest, exchange_tests

ALPHA = 0.05
PERMUTATIONS = 10_000
_FOR_EACH_PAIR = 100


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

    Intervals come from `draws` draws of images, p from `PERMUTATIONS` exchanges. Of many systems more are made: p
    cannot be smaller than they allow, and after the adjustment for all pairs nothing could be significant.
    """
    metrics = dict.fromkeys(metric for results in systems.values() for metric in results)
    scores = {metric: {name: of[metric] for name, of in systems.items() if metric in set(of)} for metric in metrics}
    bounds = _intervals(systems, draws, seed, level)
    tests = _tests(systems, scores, seed) if same_images(systems) else {}
    return {metric: _standing(scores[metric], bounds[metric], tests.get(metric, {})) for metric in metrics}


def same_images(systems: Mapping[str, Results]) -> bool:
    """Whether all systems were scored on captions of the same images, so that their captions can change places."""
    first, *others = (set(results.ids.images) for results in systems.values())
    return all(other == first for other in others)


def _intervals(
    systems: Mapping[str, Results], draws: int, seed: int, level: float
) -> dict[str, dict[str, tuple[float, float]]]:
    """Of each metric and system that has rows to draw from; images are drawn by name, whatever their order."""
    comparable = same_images(systems)
    universe = _images(next(iter(systems.values())))
    found: dict[str, dict[str, tuple[float, float]]] = {metric: {} for of in systems.values() for metric in of}
    for system, results in systems.items():
        order = _places(_images(results), universe) if comparable else slice(None)
        drawn: dict[str, list[Floats]] = {metric: [] for metric, scores in results.items() if scores.values is not None}
        for weights in draw_blocks(len(results.ids.clusters), draws, seed):
            for metric, values in drawn.items():
                values.append(results[metric].drawn(weights[:, order], results.ids.clusters))
        for metric, values in drawn.items():
            found[metric][system] = percentile(np.concatenate(values), level)
    return found


def _tests(
    systems: Mapping[str, Results], scores: Mapping[str, Mapping[str, Scores]], seed: int
) -> dict[str, dict[tuple[str, str], float]]:
    """p of each metric's pairs of systems, of the metrics with two systems or more that all have their rows."""
    universe = _images(next(iter(systems.values())))
    orders = {name: _places(universe, _images(results)) for name, results in systems.items()}
    contests = {}
    for metric, of in scores.items():
        if len(of) > 1 and all(each.values is not None for each in of.values()):
            tables = {name: each.by_cluster(systems[name].ids.clusters) for name, each in of.items()}
            contests[metric] = Contest(
                np.stack([sums[orders[name]] for name, (sums, _) in tables.items()]),
                np.stack([counts[orders[name]] for name, (_, counts) in tables.items()]),
                next(iter(of.values())).finish,
            )
    pairs = len(systems) * (len(systems) - 1) // 2
    tests = exchange_tests(list(contests.values()), max(PERMUTATIONS, _FOR_EACH_PAIR * pairs), seed)
    return {
        metric: {(names[a], names[b]): test.p for (a, b), test in found.items()}
        for (metric, names), found in zip(((m, list(scores[m])) for m in contests), tests, strict=True)
    }


def _images(results: Results) -> list[str]:
    """The images, in the order of their clusters."""
    return list(dict.fromkeys(results.ids.images))


def _places(wanted: list[str], images: list[str]) -> npt.NDArray[np.int64]:
    """Where each of the wanted images is among `images`."""
    place = {name: k for k, name in enumerate(images)}
    return np.array([place[name] for name in wanted], np.int64)


def _standing(
    scores: Mapping[str, Scores],
    bounds: dict[str, tuple[float, float]],
    tests: Mapping[tuple[str, str], float],
) -> Standing:
    beats: dict[str, set[str]] = {name: set() for name in scores}
    if not tests:
        return Standing(bounds, {name: frozenset() for name in scores}, frozenset())
    for (a, b), p in zip(tests, holm(list(tests.values())).tolist(), strict=True):
        if p < ALPHA and scores[a].score != scores[b].score:
            winner, loser = (a, b) if scores[a].score > scores[b].score else (b, a)
            beats[winner].add(loser)
    first = max(scores, key=lambda name: scores[name].score)
    return Standing(
        bounds, {name: frozenset(beats[name]) for name in scores}, frozenset(set(scores) - beats[first] | {first})
    )
