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
    wins: dict[tuple[str, str], int] = defaultdict(int)
    opponents_of: dict[str, set[str]] = defaultdict(set)
    for ranking in rankings:
        for system, its_rank in ranking.items():
            for opponent, other_rank in ranking.items():
                if its_rank < other_rank:
                    wins[system, opponent] += 1
                    opponents_of[system].add(opponent)
                    opponents_of[opponent].add(system)
    return {
        system: sum(
            wins[system, opponent] / (wins[system, opponent] + wins[opponent, system]) for opponent in opponents
        )
        / len(opponents)
        for system, opponents in sorted(opponents_of.items())
    }


def read_system_scores(path: str, key: str | None = None) -> dict[str, float]:
    """System → score, from a JSON object, from rows with `system` and `key`, or from rows with `ranks`."""
    rows = _rows(path)
    if len(rows) == 1 and isinstance(rows[0], dict) and "system" not in rows[0] and "ranks" not in rows[0]:
        return {str(system): _number(value, f"{path}: {system}") for system, value in rows[0].items()}
    for row_number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise InputError(f"{path}, row {row_number}: {row!r} is not an object")
    if rows and all("ranks" in row for row in rows):
        for row_number, row in enumerate(rows, 1):
            ranks = row["ranks"]
            if not isinstance(ranks, dict):
                raise InputError(f"{path}, row {row_number}: ranks is {ranks!r}; expected {{system: rank}}")
            for system, rank in ranks.items():
                _number(rank, f"{path}, row {row_number}: the rank of {system}")
        return expected_wins(row["ranks"] for row in rows)
    scores: dict[str, float] = {}
    for row_number, row in enumerate(rows, 1):
        used_key = key or next((score_key for score_key in KEYS if score_key in row), None)
        if "system" not in row or used_key is None or used_key not in row:
            raise InputError(
                f"{path}, row {row_number}: expected system and {key or ' or '.join(KEYS)}, but got {list(row)}"
            )
        scores[str(row["system"])] = _number(row[used_key], f"{path}, row {row_number}: {used_key}")
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
    json_rows = []
    for line_number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                json_rows.append(json.loads(line))
            except ValueError as problem:
                raise InputError(
                    f"{path}, line {line_number}: not JSON ({problem}); expected JSON or JSON lines"
                ) from None
    return json_rows


def _number(value: Any, where: str) -> float:
    if not is_finite(value):
        raise InputError(f"{where} is {value!r}; expected a number")
    return float(value)
