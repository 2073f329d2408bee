"""The page's table of scores: each with its interval, the systems that it is significantly above, and its notes.

A note names captions whose score may be misleading ("candidate is one of its own references": such a caption always
gets the full score). Its mark is printed beside the score, its text below the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from capmeter.meta.standing import Standing, untested
from capmeter.metrics.scores import Results
from capmeter.stats.significance import LEVEL, alpha

MARKS = "*†‡§‖¶"
_NONE = {"best": False, "value": "-inf", "text": "–", "beats": "", "beats_names": "", "interval": "", "notes": []}


def letters_of(systems: Sequence[str]) -> dict[str, str]:
    """The letter of each system, by which the table refers to it; none for a single system or too many."""
    return {name: chr(ord("a") + k) for k, name in enumerate(systems)} if 1 < len(systems) <= 26 else {}


def score_rows(systems: Mapping[str, Results], found: Mapping[str, Standing]) -> dict[str, Any]:
    """The rows of the table of scores: systems, or for a single system its metrics."""
    names = list(systems)
    letters, reasons = letters_of(names), _Reasons()
    if len(names) == 1:
        (results,) = systems.values()
        rows = [
            {"name": metric, "letter": "", "cells": [_cell(names[0], results, metric, found, {}, reasons)]}
            for metric in found
        ]
        return {"single": True, "heads": ["Score, 95% interval"], "rows": rows, "table_notes": reasons.lines(systems)}
    rows = [
        {
            "name": name,
            "letter": letters.get(name, ""),
            "cells": [_cell(name, results, metric, found, letters, reasons) for metric in found],
        }
        for name, results in systems.items()
    ]
    notes = ["Below each score: its 95% interval. Click a heading to sort by it."]
    if any(each.best for each in found.values()):
        notes.append(
            "Bold: the best system of a column, and all that are not significantly below it. Small letters: the "
            "systems that this one is significantly above (paired permutation test by image, Holm-corrected, "
            f"p <  {alpha(LEVEL):g})."
        )
    elif why := untested(systems):
        notes.append(why)
    return {"single": False, "heads": list(found), "rows": rows, "table_notes": [*notes, *reasons.lines(systems)]}


class _Reasons:
    """The reasons of notes: each with its mark beside scores, and its number of captions per system."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, int]] = {}

    def mark(self, reason: str, system: str, captions: int) -> str:
        counts = self._found.setdefault(reason, {})
        counts[system] = max(captions, counts.get(system, 0))
        again, which = divmod(list(self._found).index(reason), len(MARKS))
        return MARKS[which] * (again + 1)

    def lines(self, systems: Mapping[str, Results]) -> list[str]:
        """What each mark means."""
        lines = []
        for reason, counts in self._found.items():
            shares = [
                ("" if len(systems) == 1 else f"{name} ") + f"{many:,} of {len(systems[name].ids.names):,}"
                for name, many in counts.items()
            ]
            (name, many), *_ = counts.items()
            lines.append(f"{self.mark(reason, name, many)} {reason}: {', '.join(shares)} captions.")
        return lines


def _cell(
    name: str,
    results: Results,
    metric: str,
    found: Mapping[str, Standing],
    letters: Mapping[str, str],
    reasons: _Reasons,
) -> dict[str, Any]:
    if metric not in set(results):
        return {
            "best": False,
            "value": "-inf",
            "text": "–",
            "beats": "",
            "beats_names": "",
            "interval": "",
            "notes": [],
        }
    score, standing = results[metric].score, found[metric]
    interval = standing.intervals.get(name)
    beaten = [other for other in letters if other in standing.beats.get(name, ())]
    return {
        "best": name in standing.best,
        "value": repr(score),
        "text": _signed(score),
        "beats": "".join(letters[other] for other in beaten),
        "beats_names": ", ".join(beaten),
        "interval": "" if interval is None else f"{_signed(interval[0])} – {_signed(interval[1])}",
        "notes": [
            (reasons.mark(reason, name, many), f"{reason}: {many:,} of {len(results.ids.names):,} captions")
            for reason, many in _noted(results, metric).items()
        ],
    }


def _noted(results: Results, metric: str) -> dict[str, int]:
    """The reasons for notes on captions of this score, each with the number of captions."""
    scores = results[metric]
    rows: dict[str, set[str]] = {}
    # notes on the captions concern every metric that compares them with references
    compares = scores.metric is None or "references" in scores.metric.needs
    for reason, ids in [*(results.notes.items() if compares else ()), *scores.notes.items()]:
        known = results.ids.position.keys() & set(ids)
        if known:
            rows.setdefault(reason.replace("_", " "), set()).update(known)
    return {reason: len(ids) for reason, ids in rows.items()}


def _signed(value: float) -> str:
    return f"{value:.4f}".replace("-", "−")
