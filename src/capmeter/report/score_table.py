"""Scores of systems as a table, and for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from capmeter.core.messages import format_count
from capmeter.evaluation.results import Ids, Results, enclose_systems
from capmeter.meta.system_ranking import SystemRanking
from capmeter.report.metric_names import MetricName
from capmeter.report.note_text import describe_direction
from capmeter.report.tables import Table
from capmeter.stats.significance import LEVEL, significance_threshold

SCORED_SHARE = "scored_share"  # the part that says how many captions have a score


def score_table(
    systems: Mapping[str, Results],
    rankings: Mapping[str, SystemRanking] | None = None,
    digits: int = 4,
    scale: float = 1,
    untested: str = "",
) -> Table:
    """One row per metric for a single system; else systems and metrics, the more numerous downward.

    With their rankings (by metric), scores have intervals where there are any, and the best of each metric are bold:
    the best score and all that are not significantly worse. Scores are multiplied by `scale`; `untested` says why none
    are bold. A score of only some captions (a judge did not answer for all) is followed by their share.
    """
    metrics = [MetricName(name) for name in dict.fromkeys(name for results in systems.values() for name in results)]
    level = next(iter(rankings.values())).level if rankings else LEVEL
    has_intervals = rankings is not None and any(each.intervals for each in rankings.values())
    scale_note = "" if scale == 1 else f", scores x {scale:g}"

    def cell(system: str, metric: str) -> list[str]:
        if metric not in set(systems[system]):
            return ["-"]
        scores = systems[system][metric]
        score = f"{scale * scores.score:.{digits}f}"
        if scores.parts.get(SCORED_SHARE, 1.0) < 1:
            score += f" of {100 * scores.parts[SCORED_SHARE]:.1f}%"
        if rankings is None or system not in rankings[metric].intervals:
            return [score]
        low, high = (scale * bound for bound in rankings[metric].intervals[system])
        return [score, f"[{low:.{digits}f}, {high:.{digits}f}]"]

    direction = describe_direction(lower_is_better_in(systems))
    if len(systems) == 1:
        (system,) = systems
        heads = ["metric", "score"] + ([f"{100 * level:g}% interval"] if has_intervals else [])
        rows = [[metric, *cell(system, metric), ""][: len(heads)] for metric in metrics]
        title = describe_counts([results.ids for results in systems.values()]) + scale_note
        return Table(title, heads, rows, [False] + [True] * (len(heads) - 1), direction)
    rows = [[system, *(" ".join(cell(system, metric)) for metric in metrics)] for system in systems]
    heads = ["system", *metrics]
    best = {
        (s, m)
        for s, system in enumerate(systems)
        for m, metric in enumerate(metrics, 1)
        if rankings is not None and system in rankings[metric].best
    }
    if len(metrics) > len(systems):  # the longer side downward, so that the table fits a screen
        heads, *rows = (list(line) for line in zip(heads, *rows, strict=True))
        heads[0] = "metric"
        best = {(m - 1, s + 1) for s, m in best}
    notes = [f"in brackets: {100 * level:g}% interval, images resampled with replacement"] if has_intervals else []
    if best:
        notes.append(
            "bold: the best of each metric, and all that are not significantly worse (paired permutation test, "
            f"Holm, p < {significance_threshold(level):g})"
        )
    notes += filter(None, [direction, untested.rstrip(".")])
    title = describe_counts([results.ids for results in systems.values()]) + scale_note
    return Table(title, heads, rows, [False] + [True] * (len(heads) - 1), "; ".join(notes), best)


def describe_counts(systems: Sequence[Ids]) -> str:
    """How many captions and images every system has: one number, or the least and the most."""
    counts = [(len(ids.names), len(ids.clusters)) for ids in systems]
    captions, images = (
        _describe_range(system_counts, counted_noun)
        for system_counts, counted_noun in zip(zip(*counts, strict=True), ("caption", "image"), strict=True)
    )
    return f"{captions} of {images}" + " each" * (len(systems) > 1 and len(set(counts)) == 1)


def _describe_range(system_counts: Sequence[int], counted_noun: str) -> str:
    low, high = min(system_counts), max(system_counts)
    return ("" if low == high else f"{low:,} to ") + format_count(high, counted_noun)


def lower_is_better_in(systems: Mapping[str, Results]) -> list[str]:
    """The metrics of these results for which lower is better."""
    return list(
        dict.fromkeys(name for results in systems.values() for name, each in results.items() if each.lower_is_better)
    )


def scores_to_dict(
    systems: Mapping[str, Results], rankings: Mapping[str, SystemRanking] | None = None
) -> dict[str, Any]:
    """Scores, intervals, parts, notes and signatures, in the layout of `--output` without the captions' own scores.

    Of several systems also whether each is among the best, and which systems it is significantly better than.
    """

    def metric_scores(system: str, metric: str) -> dict[str, Any]:
        scores = systems[system][metric]
        ranking = None if rankings is None else rankings[metric]
        tested: dict[str, Any] = {}
        if ranking is not None and system in ranking.intervals:
            tested = dict(zip(("low", "high"), ranking.intervals[system], strict=True))
        if ranking is not None and ranking.best:
            tested |= {"best": system in ranking.best, "above": sorted(ranking.significantly_worse[system])}
        return {
            "score": scores.score,
            **tested,
            "parts": scores.parts,
            "signature": scores.signature,
            "notes": scores.notes,
        }

    return enclose_systems(
        {
            system: {
                "counts": {"captions": len(results.ids.names), "images": len(results.ids.clusters)},
                "metrics": {name: metric_scores(system, name) for name in results},
                "notes": results.notes,
            }
            for system, results in systems.items()
        }
    )
