"""How often does a metric reverse the order of an image's captions where another gets it right? (SMURF, Table 5)

For every image that all systems captioned, a metric's scores of these captions are correlated (Pearson) with
the human scores of the *systems* (the paper: M2 of the COCO challenge 2015). A *critical failure* of a metric is an
image on which a reference metric's correlation exceeds its own by more than 1; P(F) is the share of such images. If a
metric gives all captions of an image the same score, its correlation there counts as 0.

>>> correlations(np.array([[1.0, 2, 3], [3, 2, 1], [2, 2, 2]]), np.array([0.1, 0.2, 0.3])).round(6).tolist()
[1.0, -1.0, 0.0]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.errors import InputError
from capmeter.core.settings import Settings
from capmeter.evaluation.base import Floats, Metric
from capmeter.evaluation.runner import evaluate
from capmeter.stats.bootstrap import Interval, bootstrap_interval, mean_statistic

DISPARITY = 1.0


@dataclass(frozen=True, eq=False)
class FailureCase:
    """One image on which a metric fails: both correlations, the systems' captions with the metric's scores, and the
    image's references.
    """

    image: str
    reference: float
    tested: float
    captions: dict[str, tuple[str, float]]
    references: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Failures:
    """One metric's critical failures: P(F) with its interval, the disparity of each image (float64[images]), the number
    of images whose captions it scores equally, and the worst cases.
    """

    metric: str
    probability: Interval
    disparities: Floats
    undecided: int
    worst_cases: list[FailureCase]


@dataclass(frozen=True, eq=False)
class FailureStudy:
    """The study: the reference metric, the systems' human scores, the number of images, each metric's failures."""

    reference: str
    human: dict[str, float]
    images: int
    failures: list[Failures]


def correlations(scores: Floats, human: Floats) -> Floats:
    """Pearson's r of each row of scores [images, systems] with the systems' human scores; 0 for a constant row."""
    centred_human = human - human.mean()
    centred_scores = scores - scores.mean(axis=1, keepdims=True)
    norms = np.sqrt((centred_scores**2).sum(axis=1))
    is_varying = norms > 1e-12 * np.maximum(np.abs(scores).max(axis=1), 1e-300)
    r: Floats = centred_scores @ centred_human / (np.where(is_varying, norms, 1) * np.sqrt((centred_human**2).sum()))
    return np.where(is_varying, np.clip(r, -1, 1), 0.0)


def critical_failures(
    systems: Mapping[str, CaptionSet],
    human: Mapping[str, float],
    metrics: Sequence[Metric],
    reference: Metric,
    *,
    worst: int = 20,
    resamples: int = 1000,
    seed: int = 0,
    settings: Settings | None = None,
) -> FailureStudy:
    """The critical failures of these metrics against the reference metric.

    Args:
        systems: name → captions, all of the same images.
        human: name → human score; systems without one are left out.
        metrics: the tested metrics.
        reference: the metric that they are compared with.
        worst: number of cases to list for each metric.
        resamples: of images, for the interval of P(F).
        seed: of the resamples.
        settings: device, precision, threads and cache.

    Raises:
        InputError: fewer than three systems with human scores, equal human scores, or no common image.
    """
    names = [name for name in systems if name in human]
    if len(names) < 3:
        raise InputError(
            f"expected at least three systems with human scores, but got {', '.join(names) or 'none'}; the captions "
            f"are of {', '.join(systems)}, the judgments of {', '.join(human)}"
        )
    if reference in metrics:
        raise InputError(f"{reference} is the reference; it cannot be tested against itself")
    human_scores = np.array([human[name] for name in names])
    if not np.ptp(human_scores) > 0:
        raise InputError(
            f"the human scores of {', '.join(names)} are all {human_scores[0]:g}; expected different scores"
        )
    captions = _common_images({name: systems[name] for name in names})
    system_captions = (
        replace(caption, id=f"{image}/{name}", system=name)
        for image, by_system in captions.items()
        for name, caption in by_system.items()
    )
    results = evaluate(CaptionSet.from_captions(system_captions), [reference, *metrics], settings=settings)
    score_tables = {
        str(metric): results[metric].items.array.reshape(-1, len(names)) for metric in (reference, *metrics)
    }
    expected = correlations(score_tables[str(reference)], human_scores)
    failures = []
    for metric in map(str, metrics):
        tested, undecided = correlations(score_tables[metric], human_scores), np.ptp(score_tables[metric], axis=1) == 0
        has_failed = expected - tested > DISPARITY
        failure_share = bootstrap_interval(mean_statistic(has_failed.astype(float)), list(captions), resamples, seed)
        worst_cases = _worst_cases(captions, score_tables[metric], expected, tested, min(worst, int(has_failed.sum())))
        failures.append(Failures(metric, failure_share, expected - tested, int(undecided.sum()), worst_cases))
    return FailureStudy(str(reference), dict(zip(names, human_scores.tolist(), strict=True)), len(captions), failures)


Captions = Mapping[str, Mapping[str, Caption]]
"""Image → system → caption."""


def _worst_cases(
    captions: Captions, scores: Floats, expected: Floats, tested: Floats, number: int
) -> list[FailureCase]:
    """The images with the largest disparities; scores [images, systems], correlations [images]."""
    images, cases = list(captions), []
    for k in np.argsort(-(expected - tested), kind="stable")[:number].tolist():
        caption_by_system = captions[images[k]]
        scored_systems = zip(caption_by_system.items(), scores[k].tolist(), strict=True)
        scored_captions = {name: (caption.candidate, score) for (name, caption), score in scored_systems}
        references = next(iter(caption_by_system.values())).references
        cases.append(FailureCase(images[k], float(expected[k]), float(tested[k]), scored_captions, references))
    return cases


def _common_images(systems: Mapping[str, CaptionSet]) -> Captions:
    """The systems' captions of each image that all of them captioned."""
    captions = {name: {caption.image_id: caption for caption in captions} for name, captions in systems.items()}
    first_system, *other_systems = captions.values()
    images = [image for image in first_system if all(image in other for other in other_systems)]
    if not images:
        raise InputError(f"no image was captioned by all of {', '.join(systems)}; use the same image ids in all files")
    return {image: {name: of_image[image] for name, of_image in captions.items()} for image in images}
