"""Human scores of systems: from a file, or as expected wins from rankings.

>>> wins = expected_wins([{"a": 1, "b": 2, "c": 2}, {"a": 2, "b": 1}])
>>> {system: round(score, 3) for system, score in wins.items()}
{'a': 0.75, 'b': 0.5, 'c': 0.0}
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from capmeter.captions.rows import is_finite
from capmeter.captions.sources import read_text
from capmeter.core.errors import InputError

KEYS = ("human", "expected_wins", "M2")


def expected_wins(rankings: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """How often each system is ranked better than another, ignoring ties, averaged over its opponents.

    A ranking gives systems their ranks, 1 the best.
    """
    better: dict[tuple[str, str], int] = defaultdict(int)
    met: dict[str, set[str]] = defaultdict(set)
    for ranking in rankings:
        for one, its_rank in ranking.items():
            for other, other_rank in ranking.items():
                if its_rank < other_rank:
                    better[one, other] += 1
                    met[one].add(other)
                    met[other].add(one)
    return {
        one: sum(better[one, other] / (better[one, other] + better[other, one]) for other in others) / len(others)
        for one, others in sorted(met.items())
    }


def read_system_scores(path: str, key: str | None = None) -> dict[str, float]:
    """System → score, from a JSON object, from rows with `system` and `key`, or from rows with `ranks`."""
    rows = _rows(path)
    if len(rows) == 1 and isinstance(rows[0], dict) and "system" not in rows[0] and "ranks" not in rows[0]:
        return {str(system): _number(value, f"{path}: {system}") for system, value in rows[0].items()}
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise InputError(f"{path}, row {number}: {row!r} is not an object")
    if rows and all("ranks" in row for row in rows):
        for number, row in enumerate(rows, 1):
            ranks = row["ranks"]
            if not isinstance(ranks, dict):
                raise InputError(f"{path}, row {number}: ranks is {ranks!r}; expected {{system: rank}}")
            for system, rank in ranks.items():
                _number(rank, f"{path}, row {number}: the rank of {system}")
        return expected_wins(row["ranks"] for row in rows)
    scores: dict[str, float] = {}
    for number, row in enumerate(rows, 1):
        used = key or next((each for each in KEYS if each in row), None)
        if "system" not in row or used is None or used not in row:
            raise InputError(
                f"{path}, row {number}: expected system and {key or ' or '.join(KEYS)}, but got {list(row)}"
            )
        scores[str(row["system"])] = _number(row[used], f"{path}, row {number}: {used}")
    if not scores:
        raise InputError(f"{path} contains no system")
    return scores


def _rows(path: str) -> list[Any]:
    text = read_text(path)
    try:
        content = json.loads(text)
        return content if isinstance(content, list) else [content]
    except ValueError:
        pass
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                rows.append(json.loads(line))
            except ValueError as problem:
                raise InputError(f"{path}, line {number}: not JSON ({problem}); expected JSON or JSON lines") from None
    return rows


def _number(value: Any, where: str) -> float:
    if not is_finite(value):
        raise InputError(f"{where} is {value!r}; expected a number")
    return float(value)
