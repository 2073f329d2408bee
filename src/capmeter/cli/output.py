"""How every command prints: results on standard output, notes on standard error."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Mapping
from typing import Any

import typer

from capmeter.cli.main import say
from capmeter.errors import InputError
from capmeter.meta.standing import Standing, untested
from capmeter.metrics.base import Metric
from capmeter.metrics.registry import parse_list
from capmeter.metrics.scores import Results
from capmeter.printable import is_terminal, printable
from capmeter.report.tables import Table, as_text, print_table, rendered, score_table, scores_to_dict

_FIRST = 5


def chosen_metrics(names: str, option: str) -> list[Metric]:
    """The metrics that another option than `--metrics` names; an unknown name is a usage error."""
    try:
        return parse_list(names)
    except InputError as problem:
        raise typer.BadParameter(str(problem), param_hint=option) from problem


def show(table: Table, data: dict[str, Any], format: str) -> None:
    """The table on standard output in this format."""
    if format != "table":
        write(rendered(table, data, format))
    elif is_terminal(sys.stdout):
        from rich.console import Console

        print_table(table, Console(soft_wrap=False, width=None if sys.stdout.isatty() else 10_000, highlight=False))
    else:
        write(as_text(table))  # pipes and files get the table at full width, not at that of a terminal


def write(text: str) -> None:
    """Text for programs on standard output; without control characters on a terminal."""
    if sys.stdout.isatty():
        text = "\n".join(map(printable, text.split("\n")))
    sys.stdout.write(text)


def show_scores(
    systems: Mapping[str, Results],
    standing: Mapping[str, Standing],
    format: str,
    *,
    digits: int | None = None,
    scale: float = 1,
) -> None:
    """The systems' scores on standard output, with four decimals minus those of the scale."""
    if digits is None:
        digits = max(0, 4 - round(math.log10(scale)))
    table = score_table(systems, standing, digits, scale, untested(systems) if len(systems) > 1 else "")
    show(table, scores_to_dict(systems, standing), format)


def command_line() -> str:
    """The command line, quoted so that it can be run again."""
    return shlex.join(["capmeter", *sys.argv[1:]])


def tell_notes(systems: Mapping[str, Results]) -> None:
    """Notes on these results on standard error (skipped captions, empty ones …), then signatures."""
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
