"""Which systems are best under a metric, and which differences may be due to chance.

Each score's interval comes from images drawn with replacement. Each difference between two systems is tested as in
`capmeter compare`, by a paired permutation test, with Holm's correction over one metric's pairs (see
`capmeter.stats.significance`). The *best* are the system with the highest score and all that are not significantly
below it. As with `compare`, only systems that captioned the same images with the same references are tested.

>>> from capmeter.metrics.evaluation import score
>>> right = score(candidates=["a dog runs", "a cat sits"] * 9, references=[["a dog runs"], ["a cat sits"]] * 9,
...               metrics="rouge-l")
>>> wrong = score(candidates=["a cow", "a bus"] * 9, references=[["a dog runs"], ["a cat sits"]] * 9, metrics="rouge-l")
>>> found = standings({"wrong": wrong, "right": right}, resamples=200)["rouge-l"]
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
from capmeter.stats.bootstrap import percentile, resample_blocks
from capmeter.stats.significance import LEVEL, PERMUTATIONS, Pair, Ranking, permutation_p, resamples_for


@dataclass(frozen=True)
class Standing:
    """How the systems compare under one metric.

    `intervals`: each score's confidence interval at `level`, where there are rows to resample; `beats`: for each
    system those that are significantly below it, p < 1 - level; `best`: the highest and all that are not significantly
    below it. Both are empty where nothing was compared: a single system, systems that cannot be compared
    (`untested` says why), or results without rows to resample.
    """

    intervals: dict[str, tuple[float, float]]
    beats: dict[str, frozenset[str]]
    best: frozenset[str]
    level: float = LEVEL


def standings(
    systems: Mapping[str, Results],
    *,
    level: float = LEVEL,
    resamples: int = 1000,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
    intervals: bool = True,
) -> dict[str, Standing]:
    """How the systems compare under each metric that any of them was scored with.

    Intervals come from `resamples` of images (or are omitted), p from `permutations`; with many systems more are used,
    as in `compare`.
    """
    metrics = dict.fromkeys(metric for results in systems.values() for metric in results)
    scores = {metric: {name: of[metric] for name, of in systems.items() if metric in set(of)} for metric in metrics}
    bounds = _intervals(systems, resamples, seed, level) if intervals else {metric: {} for metric in metrics}
    tests = {} if len(systems) < 2 or untested(systems) else _tests(systems, scores, permutations, seed)
    return {metric: _standing(scores[metric], bounds[metric], tests.get(metric, {}), level) for metric in metrics}


def untested(systems: Mapping[str, Results]) -> str:
    """Why the systems' differences are not tested, in a sentence; empty where they can be.

    Results of another program may not say what their references were; these are not checked.
    """
    if not _same_images(systems):
        return "The systems were scored on different images, so their differences were not tested."
    known = {name: results.references for name, results in systems.items() if results.references is not None}
    if known:
        (first, expected), *others = known.items()
        for name, found in others:
            if found != expected:
                return (
                    f"{first} and {name} were scored against different references, so their differences were not "
                    "tested; score them against the same ones."
                )
    return ""


def _same_images(systems: Mapping[str, Results]) -> bool:
    first, *others = (set(results.ids.images) for results in systems.values())
    return all(other == first for other in others)


def _intervals(
    systems: Mapping[str, Results], resamples: int, seed: int, level: float
) -> dict[str, dict[str, tuple[float, float]]]:
    """For each metric and system that has rows to resample; images are resampled by name, whatever their order."""
    comparable = _same_images(systems)
    universe = _images(next(iter(systems.values())))
    found: dict[str, dict[str, tuple[float, float]]] = {metric: {} for of in systems.values() for metric in of}
    for system, results in systems.items():
        order = _places(_images(results), universe) if comparable else slice(None)
        drawn: dict[str, list[Floats]] = {metric: [] for metric, scores in results.items() if scores.values is not None}
        for weights in resample_blocks(len(results.ids.clusters), resamples, seed):
            for metric, values in drawn.items():
                values.append(results[metric].resampled(weights[:, order], results.ids.clusters))
        for metric, values in drawn.items():
            found[metric][system] = percentile(np.concatenate(values), level)
    return found


def _tests(
    systems: Mapping[str, Results], scores: Mapping[str, Mapping[str, Scores]], permutations: int, seed: int
) -> dict[str, dict[Pair, float]]:
    """p of each pair of systems, for the metrics that two or more systems have, all with their rows."""
    universe = _images(next(iter(systems.values())))
    orders = {name: _places(universe, _images(results)) for name, results in systems.items()}
    tables = {}
    for metric, of in scores.items():
        if len(of) > 1 and all(each.values is not None for each in of.values()):
            rows = {name: each.by_cluster(systems[name].ids.clusters) for name, each in of.items()}
            tables[metric] = {name: (sums[orders[name]], counts[orders[name]]) for name, (sums, counts) in rows.items()}
    finishes = [next(iter(scores[metric].values())).finish for metric in tables]
    tests = permutation_p(list(tables.values()), finishes, resamples_for(permutations, len(systems)), seed)
    return dict(zip(tables, tests, strict=True))


def _images(results: Results) -> list[str]:
    """The images, in the order of their clusters."""
    return list(dict.fromkeys(results.ids.images))


def _places(wanted: list[str], images: list[str]) -> npt.NDArray[np.int64]:
    """Where each of the wanted images is among `images`."""
    place = {name: k for k, name in enumerate(images)}
    return np.array([place[name] for name in wanted], np.int64)


def _standing(
    scores: Mapping[str, Scores], bounds: dict[str, tuple[float, float]], tests: Mapping[Pair, float], level: float
) -> Standing:
    if not tests:
        return Standing(bounds, {name: frozenset() for name in scores}, frozenset(), level)
    ranking = Ranking.of({name: each.score for name, each in scores.items()}, tests, level=level)
    return Standing(bounds, {name: ranking.beaten(name) for name in scores}, ranking.best(), level)
