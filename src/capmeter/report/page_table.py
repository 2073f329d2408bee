"""The page's table of scores: each with its interval, the systems that it is significantly better than, and its notes.

A note names captions whose score may be misleading ("candidate is one of its own references": such a caption always
gets the full score). Its mark is printed next to the score, its text below the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from capmeter.evaluation.results import Results
from capmeter.meta.system_ranking import SystemRanking, explain_untested
from capmeter.report.note_text import describe_direction
from capmeter.report.score_table import lower_is_better_in
from capmeter.stats.significance import LEVEL, significance_threshold

MARKS = "†‡§‖¶#"  # an asterisk is the best score in tables of text
_NO_SCORE = {"best": False, "value": "-inf", "text": "–", "worse": "", "worse_names": "", "interval": "", "notes": []}


def system_letters(systems: Sequence[str]) -> dict[str, str]:
    """The letter of each system, by which the table refers to it; none for a single system or too many."""
    return {name: chr(ord("a") + k) for k, name in enumerate(systems)} if 1 < len(systems) <= 26 else {}


def score_rows(systems: Mapping[str, Results], rankings: Mapping[str, SystemRanking]) -> dict[str, Any]:
    """The rows of the table of scores: systems, or for a single system its metrics."""
    names = list(systems)
    letters, reasons = system_letters(names), _Reasons()
    direction = describe_direction(lower_is_better_in(systems))
    direction_notes = [f"{direction[0].upper()}{direction[1:]}."] if direction else []
    if len(names) == 1:
        (results,) = systems.values()
        table_rows = [
            {"name": metric, "letter": "", "cells": [_cell(names[0], results, metric, rankings[metric], {}, reasons)]}
            for metric in rankings
        ]
        return {
            "single": True,
            "heads": ["Score, 95% interval"],
            "rows": table_rows,
            "table_notes": [*direction_notes, *reasons.lines(systems)],
        }
    table_rows = [
        {
            "name": name,
            "letter": letters.get(name, ""),
            "cells": [_cell(name, results, metric, ranking, letters, reasons) for metric, ranking in rankings.items()],
        }
        for name, results in systems.items()
    ]
    notes = ["Below each score: its 95% interval. Rows are in the order of the files; click a heading to sort by it."]
    if any(metric_ranking.best for metric_ranking in rankings.values()):
        notes.append(
            "Bold: the best system of a column, and all that are not significantly worse. Small letters: the "
            "systems that this one is significantly better than (paired permutation test by image, Holm-corrected, "
            f"p <  {significance_threshold(LEVEL):g})."
        )
    elif untested := explain_untested(systems):
        notes.append(untested)
    return {
        "single": False,
        "heads": list(rankings),
        "rows": table_rows,
        "table_notes": [*notes, *direction_notes, *reasons.lines(systems)],
    }


class _Reasons:
    """The reasons of notes: each with its mark next to scores, and its number of captions per system."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[str, int]] = {}

    def mark(self, reason: str, system: str, captions: int) -> str:
        counts = self._counts.setdefault(reason, {})
        counts[system] = max(captions, counts.get(system, 0))
        repetitions, mark_index = divmod(list(self._counts).index(reason), len(MARKS))
        return MARKS[mark_index] * (repetitions + 1)

    def lines(self, systems: Mapping[str, Results]) -> list[str]:
        """What each mark means."""
        lines = []
        for reason, counts in self._counts.items():
            shares = [
                ("" if len(systems) == 1 else f"{name} ") + f"{number:,} of {len(systems[name].ids.names):,}"
                for name, number in counts.items()
            ]
            (name, number), *_ = counts.items()
            lines.append(f"{self.mark(reason, name, number)} {reason}: {', '.join(shares)} captions.")
        return lines


def _cell(
    system_name: str,
    results: Results,
    metric: str,
    ranking: SystemRanking,
    letters: Mapping[str, str],
    reasons: _Reasons,
) -> dict[str, Any]:
    if metric not in set(results):
        return _NO_SCORE
    score, interval = results[metric].score, ranking.intervals.get(system_name)
    worse_systems = [other for other in letters if other in ranking.significantly_worse.get(system_name, ())]
    return {
        "best": system_name in ranking.best,
        "value": repr(score),
        "text": _signed(score),
        "worse": "".join(letters[other] for other in worse_systems),
        "worse_names": ", ".join(worse_systems),
        "interval": "" if interval is None else f"{_signed(interval[0])} – {_signed(interval[1])}",
        "notes": [
            (reasons.mark(reason, system_name, number), f"{reason}: {number:,} of {len(results.ids.names):,} captions")
            for reason, number in _noted_captions(results, metric).items()
        ],
    }


def _noted_captions(results: Results, metric: str) -> dict[str, int]:
    """The reasons for notes on captions of this score, each with the number of captions."""
    scores = results[metric]
    noted_ids: dict[str, set[str]] = {}
    # notes on the captions concern every metric that compares them with references
    compares = scores.metric is None or "references" in scores.metric.needs
    for reason, ids in [*(results.notes.items() if compares else ()), *scores.notes.items()]:
        scored_ids = results.ids.positions.keys() & set(ids)
        if scored_ids:
            noted_ids.setdefault(reason.replace("_", " "), set()).update(scored_ids)
    return {reason: len(ids) for reason, ids in noted_ids.items()}


def _signed(value: float) -> str:
    return f"{value:.4f}".replace("-", "−")
