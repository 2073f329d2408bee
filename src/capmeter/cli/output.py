"""How every command prints: results on standard output, notes on standard error."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import typer

from capmeter.cli.main import echo
from capmeter.core.errors import InputError
from capmeter.core.messages import escape_controls, fold_line
from capmeter.core.output_files import check_targets, is_same_file
from capmeter.evaluation.base import Metric
from capmeter.evaluation.registry import parse_list
from capmeter.evaluation.results import Results
from capmeter.meta.system_ranking import explain_untested
from capmeter.report.score_table import describe_note, list_captions, score_table, scores_to_dict
from capmeter.report.tables import PIPE_WIDTH, Table, default_digits, print_table, render
from capmeter.stats.significance import Ranking


def parse_metrics(names: str, flag: str) -> list[Metric]:
    """The metrics that an option names; an unknown name is wrong usage."""
    try:
        return parse_list(names)
    except InputError as problem:
        raise typer.BadParameter(str(problem), param_hint=flag) from problem


def refuse_shared_files(inputs: Iterable[Any], **outputs: Any) -> None:
    """Raises if an output cannot be written, is also read, or is the file of another output.

    Args:
        inputs: the files that are read; what is not a path is left out.
        outputs: the files that are written, or lists of them, by the name of their option; None: not written.
    """
    option_flags = {name: name if name.isupper() else f"--{name.replace('_', '-')}" for name in outputs}
    output_paths = [
        (option_flags[name], path)
        for name, value in outputs.items()
        for path in (value if isinstance(value, list) else [value])
        if path is not None
    ]
    check_targets(*(path for _, path in output_paths if isinstance(path, Path)))
    for k, (flag, path) in enumerate(output_paths):
        if os.fspath(path) == "-":
            raise typer.BadParameter("- is standard input, which is read; name the file to write", param_hint=flag)
        other_paths = [(f"the file of {other_flag}", other) for other_flag, other in output_paths[:k]]
        other_paths += [("a file that is read", other) for other in inputs if isinstance(other, str | os.PathLike)]
        for file_role, other in other_paths:
            if is_same_file(path, other):
                raise typer.BadParameter(f"{path} is {file_role} ({other}), which would be lost", param_hint=flag)


def show(table: Table, data: dict[str, Any], format: str, *, wrap: int = PIPE_WIDTH) -> None:
    """Prints a table on standard output.

    Args:
        table: its title, columns and rows.
        data: its content as JSON values.
        format: one of `capmeter.report.tables.FORMATS`.
        wrap: the longest line of a table in a pipe or file.
    """
    if format != "table":
        write(render(table, data, format))
        return
    from rich.console import Console

    console_width = None if sys.stdout.isatty() else wrap
    print_table(table, Console(soft_wrap=False, width=console_width, highlight=False, emoji=False))


def write(text: str) -> None:
    """Text for programs on standard output; without control characters on a terminal."""
    if sys.stdout.isatty():
        text = "\n".join(map(escape_controls, text.split("\n")))
    sys.stdout.write(text)


def write_lines(lines: Iterable[str]) -> None:
    """Sentences on standard output; in a terminal folded at blanks."""
    line_width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    write("".join(f"{fold_line(line, line_width) if line_width else line}\n" for line in lines))


def show_scores(
    systems: Mapping[str, Results],
    rankings: Mapping[str, Ranking],
    format: str,
    *,
    digits: int | None = None,
    scale: float = 1,
    systems_as_rows: bool = False,
) -> None:
    """The systems' scores on standard output, by default with four decimals minus those of the scale.

    Args:
        systems: the scores.
        rankings: of the systems, by metric.
        format: one of `capmeter.report.tables.FORMATS`.
        digits: decimals; None: by the scale.
        scale: by which scores are multiplied.
        systems_as_rows: whether each system has a row whatever their number.
    """
    digits = default_digits(scale) if digits is None else digits
    untested = explain_untested(systems) if len(systems) > 1 else ""
    table = score_table(systems, rankings, digits, scale, untested, systems_as_rows)
    show(table, scores_to_dict(systems, rankings), format)


def command_line() -> str:
    """The command line, quoted so that it can be run again."""
    return shlex.join(["capmeter", *sys.argv[1:]])


def show_notes(systems: Mapping[str, Results]) -> None:
    """Notes on these results on standard error (skipped captions, empty ones …), then signatures."""
    note_lines: dict[str, None] = {}
    for system_name, results in systems.items():
        name_prefix = f"{system_name}: " if len(systems) > 1 else ""
        for reason, ids in results.notes.items():
            note_lines[f"note: {name_prefix}{describe_note(reason, ids, results.ids.positions)}"] = None
        metrics_by_note: dict[tuple[str, str], list[str]] = {}
        for metric_name, scores in results.items():
            for reason, ids in scores.notes.items():
                metrics_by_note.setdefault((reason, list_captions(ids)), []).append(metric_name)
        for (reason, named_ids), metric_names in metrics_by_note.items():
            metrics_text = "" if len(metric_names) == len(results) else f" ({', '.join(metric_names)})"
            note_lines[f"note: {name_prefix}{reason}{metrics_text}: {named_ids}"] = None
    signatures = {scores.signature: None for results in systems.values() for scores in results.values()}
    for line in [*note_lines, *(f"signature: {signature}" for signature in signatures)]:
        echo(line)
