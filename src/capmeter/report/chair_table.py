"""CHAIR as papers report it: CHAIRs, CHAIRi, recall and F1 with intervals, and a sentence to cite."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from capmeter.evaluation.base import Floats
from capmeter.evaluation.results import Scores
from capmeter.report.score_table import describe_counts
from capmeter.report.tables import Table
from capmeter.stats.bootstrap import percentile_interval, resample_blocks

HEADS = {"chair-s": "CHAIRs", "chair-i": "CHAIRi", "recall": "recall", "f1": "F1", "length": "tokens"}
Intervals = Mapping[str, tuple[float, float]]


def part_intervals(scores: Scores, *, level: float, resamples: int, seed: int) -> Intervals:
    """The interval of each part of a score, by bootstrap over images."""
    clusters = scores.items.ids.clusters
    sums, counts = scores.sum_by_cluster(clusters)
    score_blocks: dict[str, list[Floats]] = {name: [] for name in scores.parts}
    for weights in resample_blocks(len(clusters), resamples, seed):
        resampled_scores = scores.parts_from_sums(weights @ sums, weights @ counts)
        for name, values in score_blocks.items():
            values.append(resampled_scores[name])
    return {name: percentile_interval(np.concatenate(values), level) for name, values in score_blocks.items()}


def chair_table(systems: Mapping[str, Scores], intervals: Mapping[str, Intervals], digits: int, level: float) -> Table:
    """One row per system; shares times 100, each with its interval.

    Args:
        systems: the scores of `chair`.
        intervals: those of their parts.
        digits: decimals.
        level: of the intervals.
    """

    def cell(system: str, part: str) -> str:
        scale = 1 if part == "length" else 100
        values = (systems[system].parts[part], *intervals[system][part])
        score, low, high = (f"{scale * value:.{digits}f}" for value in values)
        return f"{score} [{low}, {high}]"

    rows = [[system, *(cell(system, part) for part in HEADS)] for system in systems]
    note = (
        f"× 100 but for tokens; CHAIRs, CHAIRi: lower is better; in brackets: {100 * level:g}% interval, images "
        "resampled with replacement"
    )
    title = describe_counts([scores.items.ids for scores in systems.values()])
    return Table(title, ["system", *HEADS.values()], rows, [False] + [True] * len(HEADS), note)


def chair_to_dict(systems: Mapping[str, Scores], intervals: Mapping[str, Intervals], level: float) -> dict[str, Any]:
    """The same as JSON values, as shares."""
    return {
        "level": level,
        "systems": {
            system: {
                "signature": scores.signature,
                **{part: {"score": scores.parts[part], "interval": list(intervals[system][part])} for part in HEADS},
            }
            for system, scores in systems.items()
        },
    }


def citation(scores: Scores, intervals: Intervals, level: float) -> str:
    """A line ready to cite: both rates with their intervals, and how they were computed."""
    rates = ", ".join(
        f"{HEADS[part]} {100 * scores.parts[part]:.1f} [{100 * low:.1f}, {100 * high:.1f}]"
        for part, (low, high) in ((part, intervals[part]) for part in ("chair-s", "chair-i"))
    )
    size = describe_counts([scores.items.ids])
    return f"{rates} ({size}, {100 * level:g}% bootstrap intervals; {scores.signature})"
