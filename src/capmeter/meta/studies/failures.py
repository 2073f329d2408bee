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

from capmeter.captions.model import Caption, CaptionSet
from capmeter.errors import InputError
from capmeter.metrics.base import Floats, Metric
from capmeter.metrics.evaluation import evaluate
from capmeter.settings import Settings
from capmeter.stats.bootstrap import Interval, interval, mean_of

DISPARITY = 1.0


@dataclass(frozen=True, eq=False)
class Case:
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
    """One metric's critical failures: P(F) with its interval, the disparity on each image, the worst cases."""

    metric: str
    probability: Interval
    disparities: Floats
    undecided: int
    gravest: list[Case]


@dataclass(frozen=True, eq=False)
class FailureStudy:
    """The study: the reference metric, the number of images, the systems and each metric's failures."""

    reference: str
    human: dict[str, float]
    images: int
    failures: list[Failures]


def correlations(scores: Floats, human: Floats) -> Floats:
    """Pearson's r of each row of scores [images, systems] with the systems' human scores; 0 for a constant row."""
    people = human - human.mean()
    centred = scores - scores.mean(axis=1, keepdims=True)
    spread = np.sqrt((centred**2).sum(axis=1))
    varied = spread > 1e-12 * np.maximum(np.abs(scores).max(axis=1), 1e-300)
    product: Floats = centred @ people / (np.where(varied, spread, 1) * np.sqrt((people**2).sum()))
    return np.where(varied, np.clip(product, -1, 1), 0.0)


def critical_failures(
    systems: Mapping[str, CaptionSet],
    human: Mapping[str, float],
    metrics: Sequence[Metric],
    reference: Metric,
    *,
    gravest: int = 20,
    resamples: int = 1000,
    seed: int = 0,
    settings: Settings | None = None,
) -> FailureStudy:
    """The critical failures of these metrics against the reference metric."""
    names = [name for name in systems if name in human]
    if len(names) < 3:
        raise InputError(
            f"expected at least three systems with human scores, but got {', '.join(names) or 'none'}; the captions "
            f"are of {', '.join(systems)}, the judgments of {', '.join(human)}"
        )
    if reference in metrics:
        raise InputError(f"{reference} is the reference; it cannot be tested against itself")
    people = np.array([human[name] for name in names])
    if not np.ptp(people) > 0:
        raise InputError(f"the human scores of {', '.join(names)} are all {people[0]:g}; expected different scores")
    of_image = {name: {caption.image_id: caption for caption in systems[name]} for name in names}
    images = [image for image in of_image[names[0]] if all(image in of_image[name] for name in names)]
    if not images:
        raise InputError(f"no image was captioned by all of {', '.join(names)}; use the same image ids in all files")
    together = CaptionSet.from_captions(_labelled(of_image[name][image], name) for image in images for name in names)
    results = evaluate(together, [reference, *metrics], settings=settings)
    shape = (len(images), len(names))
    expected = correlations(results[reference].items.array.reshape(shape), people)
    failures = []
    for metric in metrics:
        scores = results[metric].items.array.reshape(shape)
        found = correlations(scores, people)
        disparities = expected - found
        failed = disparities > DISPARITY
        order = np.argsort(-disparities, kind="stable")[: min(gravest, int(failed.sum()))]
        cases = [
            Case(
                images[k],
                float(expected[k]),
                float(found[k]),
                {
                    name: (of_image[name][images[k]].candidate, float(score))
                    for name, score in zip(names, scores[k], strict=True)
                },
                of_image[names[0]][images[k]].references,
            )
            for k in order
        ]
        share = interval(mean_of(failed.astype(float)), images, resamples, seed)
        undecided = int((np.ptp(scores, axis=1) == 0).sum())
        failures.append(Failures(str(metric), share, disparities, undecided, cases))
    return FailureStudy(str(reference), dict(zip(names, people.tolist(), strict=True)), len(images), failures)


def _labelled(caption: Caption, system: str) -> Caption:
    return replace(caption, id=f"{caption.image_id}/{system}", system=system)
