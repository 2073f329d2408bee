"""Model selection on human judgments: of an epoch, or of component weights. The judgments are never trained on."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from capmeter.core.errors import InputError
from capmeter.core.messages import format_count
from capmeter.judgments.benchmarks import find_benchmark as named_benchmark
from capmeter.judgments.prepared import Points
from capmeter.stats.kendall import TauA, TauB, TauC

_TAUS = {"tau-a": TauA, "tau-b": TauB, "tau-c": TauC}


def load_selection_judgments(benchmark: str, path: Path, limit: int | None = None) -> Points:
    """The judgments of a benchmark (`flickr8k-cf`, or with a protocol: `flickr8k-expert:lceval`) for model selection.

    Args:
        benchmark: its name.
        path: its file.
        limit: maximum number of rated captions, taken from images in the order of a hash; none: all.

    Raises:
        InputError: it is not a benchmark of ratings, or its protocol uses another statistic than Kendall's τ.
    """
    benchmark_name, _, protocol = benchmark.partition(":")
    judgments = named_benchmark(benchmark_name).load(path, protocol or None)
    if not isinstance(judgments, Points):
        raise InputError(f"{benchmark} has no ratings of captions, so it cannot select; flickr8k-cf has")
    require_kendall(judgments)
    captions = judgments.captions
    if limit is None or len(captions) <= limit:
        return judgments
    hash_order = sorted(range(len(captions)), key=lambda row: hashlib.sha256(captions.image_ids[row].encode()).digest())
    selected_rows = np.sort(hash_order[:limit])
    new_row = np.full(len(captions), -1)
    new_row[selected_rows] = np.arange(len(selected_rows))
    judgment_rows = np.flatnonzero(new_row[judgments.rows] >= 0)
    return replace(
        judgments,
        captions=captions.select(selected_rows),
        clusters=tuple(judgments.clusters[k] for k in judgment_rows.tolist()),
        groups=None,
        ids=tuple(judgments.ids[k] for k in selected_rows.tolist()),
        rows=new_row[judgments.rows[judgment_rows]],
        human=judgments.human[judgment_rows],
        ratings=tuple(judgments.ratings[k] for k in selected_rows.tolist()) if judgments.ratings else (),
    )


def require_kendall(judgments: Points) -> None:
    """Raises InputError unless the protocol correlates by Kendall's τ, with all references at once."""
    if judgments.protocol.statistic not in _TAUS or judgments.owners is not None:
        raise InputError(
            f"{judgments.benchmark} under {judgments.protocol.name} cannot select: expected ratings and one of "
            f"{', '.join(_TAUS)}, with all references at once"
        )


def describe_judgments(judgments: Points) -> str:
    """The name of the judgments in the checkpoint that they selected."""
    return f"{judgments.benchmark} under {judgments.protocol}, {format_count(len(judgments), 'judgment')}"


def kendall_tau(statistic: str, scores: npt.NDArray[np.float64], human: npt.NDArray[np.float64]) -> float:
    """Kendall's τ of a protocol (`tau-a`, `tau-b`, `tau-c`) between scores and judgments; 0 if all scores are equal.

    >>> kendall_tau("tau-a", np.array([0.1, 0.3, 0.2]), np.array([1.0, 3.0, 2.0]))
    1.0

    Args:
        statistic: `tau-a`, `tau-b` or `tau-c`.
        scores, human: of the judged captions, (captions,).
    """
    return float(_TAUS[statistic](scores, human)()) if np.ptp(scores) else 0.0
