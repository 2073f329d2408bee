"""How every command prints: results on standard output, notes on standard error."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from capmeter.cli.main import say
from capmeter.metrics.scores import Results
from capmeter.report.tables import FORMATS, Table, print_table, rendered

FORMAT_HELP = f"What to print: {', '.join(FORMATS)}."
_FIRST = 5


def show(table: Table, data: dict[str, Any], format: str) -> None:
    """The table on standard output in this format."""
    if format == "table":
        from rich.console import Console

        # a pipe or file gets the table at its full width, not at that of some terminal
        print_table(table, Console(soft_wrap=False, width=None if sys.stdout.isatty() else 10_000, highlight=False))
    else:
        sys.stdout.write(rendered(table, data, format))


def tell_notes(systems: Mapping[str, Results]) -> None:
    """What a reader must know of these results, on standard error: left-out captions, empty ones …, then signatures."""
    told: dict[str, None] = {}
    for system, results in systems.items():
        where = f"{system}: " if len(systems) > 1 else ""
        for reason, ids in results.notes.items():
            told[f"note: {where}{reason.replace('_', ' ')}: {_named(ids)}"] = None
        by_reason: dict[tuple[str, str], list[str]] = {}
        for name, scores in results.items():
            for reason, ids in scores.notes.items():
                by_reason.setdefault((reason, _named(ids)), []).append(name)
        for (reason, named), names in by_reason.items():
            which = "" if len(names) == len(results) else f" ({', '.join(names)})"
            told[f"note: {where}{reason}{which}: {named}"] = None
    signatures = {scores.signature: None for results in systems.values() for scores in results.values()}
    for line in [*told, *(f"signature: {signature}" for signature in signatures)]:
        say(line)


def _named(ids: list[str]) -> str:
    more = f" and {len(ids) - _FIRST:,} more" if len(ids) > _FIRST else ""
    return ", ".join(ids[:_FIRST]) + more
