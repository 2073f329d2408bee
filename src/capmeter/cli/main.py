"""The command `capmeter`: finds the file of the command that was asked for, and turns errors into exit codes.

Exit codes: 0 done, 1 the input is bad, 2 the command was called wrongly, 3 something optional is missing, 4 a check
that was asked for failed (`score --minimum`, `compare --fail-if-worse`).
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from typing import Any

import typer
from typer.core import TyperGroup

from capmeter._version import __version__
from capmeter.errors import AssetError, CapmeterError, MissingBackend

CHECK_FAILED = 4
# command: the module of its function, which has the same name
COMMANDS = {
    "score": "capmeter.cli.score",
    "explain": "capmeter.cli.explain",
    "report": "capmeter.cli.report",
    "list": "capmeter.cli.list",
    "validate": "capmeter.cli.validate",
    "convert": "capmeter.cli.convert",
    "idf": "capmeter.cli.idf",
    "compare": "capmeter.cli.compare",
    "robustness": "capmeter.cli.robustness",
    "meta": "capmeter.cli.meta",
    "systems": "capmeter.cli.systems",
    "standardize": "capmeter.cli.standardize",
    "calibrate": "capmeter.cli.calibrate",
    "study": "capmeter.cli.study",
    "train": "capmeter.cli.train",
    "doctor": "capmeter.cli.doctor",
}


class _Commands(TyperGroup):
    """Loads a command's file when the command is used."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[cmd_name])
        return typer.main.get_command(module.app)


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def capmeter_command(
    version: bool = typer.Option(False, "--version", help="Show the version and stop."),
) -> None:
    """Measures image captions: every standard metric, with intervals and a signature.

    Try `capmeter score results.json --references captions.json --metrics bleu-4,rouge-l,cider-d`.
    """
    if version:
        typer.echo(f"capmeter {__version__}")
        raise typer.Exit


def main() -> None:
    """Runs the command line and leaves with its exit code."""
    warnings.showwarning = lambda message, *_, **__: say(f"warning: {message}")
    code = 0
    try:
        app(prog_name="capmeter")
    except MissingBackend as problem:
        code = _fail(problem, 3)
    except AssetError as problem:
        code = _fail(problem, 3)
    except CapmeterError as problem:
        code = _fail(problem, 1)
    except BrokenPipeError:
        # whoever read the output has left; what follows must not fail again when Python closes it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code)


def _fail(problem: Exception, code: int) -> int:
    say(f"error: {problem}")
    return code


def say(text: str) -> None:
    """A line on standard error; what the terminal cannot show is escaped."""
    encoding = sys.stderr.encoding or "utf-8"
    sys.stderr.write(f"capmeter: {text}\n".encode(encoding, "backslashreplace").decode(encoding))
    sys.stderr.flush()
