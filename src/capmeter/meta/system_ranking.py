"""Which systems are best under a metric, and which differences may be due to chance.

Each score's interval comes from images resampled with replacement. Each difference between two systems is tested as in
`capmeter compare`, by a paired permutation test, with Holm's correction over one metric's pairs (see
`capmeter.stats.significance`). The *best* are the system with the best score (the highest, or the lowest where lower is
better) and all that are not significantly worse. As with `compare`, only systems that captioned the same images with
the same references are tested.

>>> from capmeter.evaluation.runner import score
>>> references = [["a dog runs"], ["a cat sits"]] * 9
>>> right = score(candidates=["a dog runs", "a cat sits"] * 9, references=references, metrics="rouge-l")
>>> wrong = score(candidates=["a cow", "a bus"] * 9, references=references, metrics="rouge-l")
>>> ranking = rank_systems({"wrong": wrong, "right": right}, resamples=200)["rouge-l"]
>>> sorted(ranking.best()), sorted(ranking.significantly_worse("right")), ranking.intervals["right"].low
(['right'], ['wrong'], 1.0)
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from capmeter.evaluation.results import Results, resample_scores
from capmeter.stats.bootstrap import Interval, percentile_interval
from capmeter.stats.significance import LEVEL, PERMUTATIONS, Pair, Ranking, required_resamples

MIN_IMAGES = 6
"""With n images a paired permutation test of two systems gives p of 2^(1 - n) at least: below .05 from six on."""


def rank_systems(
    systems: Mapping[str, Results],
    *,
    level: float = LEVEL,
    resamples: int = 1000,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
    intervals: bool = True,
) -> dict[str, Ranking]:
    """How the systems compare under each metric that any of them was scored with.

    Intervals come from `resamples` of images (or are omitted), p from `permutations`; with many systems more are used,
    as in `compare`.

    Args:
        systems: name → results.
        level: of intervals and significance.
        resamples: of images; their number.
        permutations: their number.
        seed: of both.
        intervals: whether there are any.
    """
    metrics = dict.fromkeys(metric for results in systems.values() for metric in results)
    scores = {metric: {name: of[metric] for name, of in systems.items() if metric in set(of)} for metric in metrics}
    bounds = score_intervals(systems, resamples, seed, level) if intervals else {metric: {} for metric in metrics}
    are_tested = len(systems) > 1 and not explain_untested(systems)
    p_values = permutation_tests(systems, permutations, seed) if are_tested else {}
    return {
        metric: Ranking.from_p_values(
            {name: each.score for name, each in scores[metric].items()},
            p_values.get(metric, {}),
            level=level,
            lower_is_better=any(each.lower_is_better for each in scores[metric].values()),
            intervals=bounds[metric],
        )
        for metric in metrics
    }


def explain_untested(systems: Mapping[str, Results]) -> str:
    """Why the systems' differences are not tested, in a sentence; empty where they can be.

    Results of another program may not say what their references were; these are not checked.
    """
    if not _same_images(systems):
        return "The systems were scored on different images, so their differences were not tested."
    images = len(next(iter(systems.values())).ids.clusters)
    if images < MIN_IMAGES:
        return (
            f"{images} image{'s are' if images != 1 else ' is'} too few for a test: with fewer than {MIN_IMAGES} no "
            "difference can be significant, so none was tested."
        )
    known_references = {
        system_name: results.references for system_name, results in systems.items() if results.references is not None
    }
    first = next(iter(known_references), "")
    for system_name, references in known_references.items():
        if references != known_references[first]:
            return (
                f"{first} and {system_name} were scored against different references, so their differences were not "
                "tested; score them against the same ones."
            )
    return ""


def score_intervals(
    systems: Mapping[str, Results], resamples: int, seed: int, level: float
) -> dict[str, dict[str, Interval]]:
    """For each metric and system that has rows to resample, its score's interval with the resamples.

    All systems and metrics see the same resamples of images; images are resampled by name, whatever their order.

    Args:
        systems: name → results.
        resamples: their number.
        seed: of the resamples.
        level: such as 0.95.
    """
    same_images = _same_images(systems)
    first_images = _image_order(next(iter(systems.values())))
    intervals: dict[str, dict[str, Interval]] = {metric_name: {} for of in systems.values() for metric_name in of}
    for system_name, results in systems.items():
        cluster_order = _positions(_image_order(results), first_images) if same_images else slice(None)
        scored = [scores for scores in results.values() if scores.values is not None]
        resampled = resample_scores(scored, results.ids.clusters, resamples, seed, cluster_order)
        for metric_name, parts in resampled.items():
            interval_bounds = percentile_interval(parts["score"], level)
            intervals[metric_name][system_name] = Interval(
                results[metric_name].score, *interval_bounds, level, parts["score"]
            )
    return intervals


def _same_images(systems: Mapping[str, Results]) -> bool:
    first_images, *others = (set(results.ids.images) for results in systems.values())
    return all(other_images == first_images for other_images in others)


def permutation_tests(systems: Mapping[str, Results], permutations: int, seed: int) -> dict[str, dict[Pair, float]]:
    """p of each pair of systems, for the metrics that two or more systems have, all with their rows.

    Args:
        systems: of the same images.
        permutations: their number; more are tried where many systems are compared.
        seed: of the permutations.
    """
    from capmeter.stats import permutation  # which one system does not need

    metrics = dict.fromkeys(metric for results in systems.values() for metric in results)
    scores = {metric: {name: of[metric] for name, of in systems.items() if metric in set(of)} for metric in metrics}
    first_images = _image_order(next(iter(systems.values())))
    orders = {name: _positions(first_images, _image_order(results)) for name, results in systems.items()}
    paired = {}
    for metric, of in scores.items():
        if len(of) > 1 and all(each.values is not None for each in of.values()):
            by_cluster = [(orders[name], *each.sum_by_cluster(systems[name].ids.clusters)) for name, each in of.items()]
            sums = np.stack([sums[order] for order, sums, _ in by_cluster])
            counts = np.stack([counts[order] for order, _, counts in by_cluster])
            paired[metric] = permutation.PairedSums(sums, counts, next(iter(of.values())).score_from_sums)
    tests = permutation.permutation_tests(list(paired.values()), required_resamples(permutations, len(systems)), seed)
    return {
        metric: {(names[a], names[b]): p for (a, b), p in results.items()}
        for metric, results in zip(paired, tests, strict=True)
        for names in [list(scores[metric])]
    }


def _image_order(results: Results) -> list[str]:
    """The images, in the order of their clusters."""
    return list(dict.fromkeys(results.ids.images))


def _positions(requested: list[str], images: list[str]) -> npt.NDArray[np.int64]:
    """The position of each requested image among `images`: int64[requested]."""
    image_positions = {image_id: k for k, image_id in enumerate(images)}
    return np.array([image_positions[image_id] for image_id in requested], np.int64)
