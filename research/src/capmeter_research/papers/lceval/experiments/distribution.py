"""How human scores are distributed in benchmarks (Lee et al. 2021, Figure 4).

Every caption's score (the mean of its ratings) is mapped to [0, 1] by the range of the benchmark's ratings. Where most
captions are near one end, a benchmark says little about captions in between. `extreme` is the share of captions below
.2 or above .8; `entropy` that of ten equal bins relative to an even distribution, in [0, 1].

>>> found = distribution("made", [1, 1, 4, 2.5])
>>> found.shares[0], found.shares[-1], found.extreme
(0.5, 0.25, 0.75)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from capmeter.core.errors import InputError
from capmeter.judgments.benchmarks import find_benchmark
from capmeter.judgments.prepared import Points

BINS = 10
_LOW, _HIGH = 0.2, 0.8


@dataclass(frozen=True)
class Distribution:
    """The scores of one benchmark: their number, mean, and the share in each of ten equal bins of [0, 1]."""

    name: str
    captions: int
    mean: float
    shares: tuple[float, ...]
    extreme: float
    entropy: float


def distribution(name: str, scores: Sequence[float], scale: tuple[float, float] | None = None) -> Distribution:
    """The distribution of scores, mapped to [0, 1] from a scale (default: from their lowest to their highest).

    Raises:
        InputError: there is no score, or the scale has no extent.
    """
    score_array = np.asarray(scores, np.float64)
    low, high = scale or (float(score_array.min(initial=np.inf)), float(score_array.max(initial=-np.inf)))
    if low >= high:
        raise InputError(f"{name}: {len(score_array)} scores, none different; a distribution needs different ones")
    unit_scores = (score_array - low) / (high - low)
    shares = np.histogram(unit_scores, BINS, (0.0, 1.0))[0] / len(unit_scores)
    nonzero_shares = shares[shares > 0]
    return Distribution(
        name,
        len(unit_scores),
        float(unit_scores.mean()),
        tuple(shares.tolist()),
        float(((unit_scores < _LOW) | (unit_scores > _HIGH)).mean()),
        abs(float(-(nonzero_shares * np.log(nonzero_shares)).sum() / np.log(BINS))),
    )


def of_benchmark(name: str, path: str, *, sample: bool = False) -> Distribution:
    """The distribution of a benchmark's mean ratings; the scale is [0, 1] if all are in it, else that of the ratings.

    Raises:
        InputError: the benchmark has no rated captions.
    """
    benchmark = find_benchmark(name)
    judgments = benchmark.load(path, sample=sample)
    if not isinstance(judgments, Points) or not judgments.ratings:
        raise InputError(f"{benchmark.name}: has {judgments.unit}, expected a benchmark of rated captions")
    ratings = [rating for caption_ratings in judgments.ratings for rating in caption_ratings]
    scale = (0.0, 1.0) if 0 <= min(ratings) <= max(ratings) <= 1 else (min(ratings), max(ratings))
    return distribution(
        benchmark.name, [float(np.mean(caption_ratings)) for caption_ratings in judgments.ratings], scale
    )
