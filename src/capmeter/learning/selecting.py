"""Human judgments that select among what was trained, an epoch or the weights of parts: they are never trained on."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from capmeter.errors import InputError
from capmeter.judgments.benchmarks import benchmark as named_benchmark
from capmeter.judgments.judged import Points
from capmeter.stats.kendall import TauA, TauB, TauC

_TAUS = {"tau-a": TauA, "tau-b": TauB, "tau-c": TauC}


def selecting(benchmark: str, path: Path, most: int | None = None) -> Points:
    """The judgments of a benchmark (`flickr8k-cf`, or with a protocol: `flickr8k-expert:lceval`) that select.

    Args:
        benchmark: its name.
        path: its file.
        most: rated captions at most, of images in the order of a hash; none: all.

    Raises:
        InputError: it is not a benchmark of ratings, or they are compared by something other than Kendall's τ.
    """
    name, _, protocol = benchmark.partition(":")
    found = named_benchmark(name).load(path, protocol or None)
    if not isinstance(found, Points):
        raise InputError(f"{benchmark} has no ratings of captions, so it cannot select; flickr8k-cf has")
    check_selecting(found)
    if most is None or len(found.captions) <= most:
        return found
    order = sorted(
        range(len(found.captions)), key=lambda row: hashlib.sha256(found.captions.image_ids[row].encode()).digest()
    )
    chosen = np.sort(order[:most])
    place = np.full(len(found.captions), -1)
    place[chosen] = np.arange(len(chosen))
    kept = np.flatnonzero(place[found.rows] >= 0)
    return replace(
        found,
        captions=found.captions.select(chosen),
        clusters=tuple(found.clusters[k] for k in kept.tolist()),
        groups=None,
        ids=tuple(found.ids[k] for k in chosen.tolist()),
        rows=place[found.rows[kept]],
        human=found.human[kept],
        ratings=tuple(found.ratings[k] for k in chosen.tolist()) if found.ratings else (),
    )


def check_selecting(judgments: Points) -> None:
    """Raises InputError where the judgments are compared by something other than Kendall's τ with all references."""
    if judgments.protocol.statistic not in _TAUS or judgments.owners is not None:
        raise InputError(
            f"{judgments.benchmark} under {judgments.protocol.name} cannot select: expected ratings and one of "
            f"{', '.join(_TAUS)}, with all references at once"
        )


def name_of(judgments: Points) -> str:
    """How a checkpoint names the judgments that selected it."""
    return f"{judgments.benchmark} under {judgments.protocol}, {len(judgments):,} judgments"


def tau(statistic: str, scores: npt.NDArray[np.float64], human: npt.NDArray[np.float64]) -> float:
    """Kendall's τ of a protocol (`tau-a`, `tau-b`, `tau-c`) of scores with judgments; 0 where all scores are equal.

    >>> tau("tau-a", np.array([0.1, 0.3, 0.2]), np.array([1.0, 3.0, 2.0])), tau("tau-b", np.ones(3), np.arange(3.0))
    (1.0, 0.0)
    """
    return float(_TAUS[statistic](scores, human)()) if np.ptp(scores) else 0.0
