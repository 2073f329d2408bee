"""The command `capmeter`: loads the requested command and turns errors into exit codes.

Exit codes: 0 done, 1 the input is bad or the output cannot be written, 2 wrong usage of the command, 3 something
optional is missing, 4 a requested check failed (`score --minimum`, `compare --fail-if-worse`).
"""

from __future__ import annotations

import gc
import importlib
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from capmeter._version import __version__
from capmeter.cli.standard_output import OutputError, guarded
from capmeter.cli.values import taken_as_they_are
from capmeter.errors import AssetError, CapmeterError, MissingBackend
from capmeter.printable import printable

CHECK_FAILED = 4
_COLLECTED = 50_000  # new objects between two searches for cycles (Python: 700): captions are many, and have none
# command: the module of its function, which has the same name
COMMANDS = {
    "demo": "capmeter.cli.demo",
    "score": "capmeter.cli.score",
    "explain": "capmeter.cli.explain",
    "report": "capmeter.cli.report",
    "view": "capmeter.cli.view",
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
    "negatives": "capmeter.cli.negatives",
    "train": "capmeter.cli.train",
    "write": "capmeter.cli.write",
    "caption": "capmeter.cli.caption",
    "world": "capmeter.cli.world",
    "schema": "capmeter.cli.schema",
    "doctor": "capmeter.cli.doctor",
}


class _Commands(TyperGroup):
    """Loads a command's file when the command is used."""

    _only_names = False

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        taken_as_they_are(self)

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        if self._only_names:
            return TyperCommand(cmd_name)
        module = importlib.import_module(COMMANDS[cmd_name])
        command = typer.main.get_command(module.app)
        command.name = cmd_name
        taken_as_they_are(command)
        return command

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """What completes a command's name; no command is loaded for it."""
        self._only_names = True
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self._only_names = False

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        with _cleaned():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        with _cleaned():
            return super().invoke(ctx)


@contextmanager
def _cleaned() -> Iterator[None]:
    """A mistake in calling the command is told without the controls that the call may hold."""
    try:
        yield
    except Exception as problem:  # of typer's own kind, which has no public name
        if hasattr(problem, "message") and isinstance(problem.message, str):
            problem.message = printable(problem.message)
        raise


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def capmeter_command(
    version: bool = typer.Option(False, "--version", help="Show the version and exit."),
) -> None:
    """Measure image captions, and say how far each number can be trusted.

    Try `capmeter score results.json --references captions.json --metrics bleu-4,rouge-l,cider-d`.
    """
    if version:
        typer.echo(f"capmeter {__version__}")
        raise typer.Exit


def main() -> None:
    """Runs the command line and exits with its exit code."""
    gc.set_threshold(_COLLECTED)
    warnings.showwarning = lambda message, *_, **__: say(f"warning: {message}")
    with guarded() as output:
        code = _run()
        try:
            output.flush()
        except OutputError as problem:
            code = _fail(problem, 1)
    if "duckdb" not in sys.modules:  # which complains of what is not collected
        gc.freeze()  # else Python looks through all that is left for cycles once more before it ends
    sys.exit(code)


def _run() -> int:
    try:
        app(prog_name="capmeter")
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except (MissingBackend, AssetError) as problem:
        return _fail(problem, 3)
    except CapmeterError as problem:
        return _fail(problem, 1)
    return 0


def _fail(problem: Exception, code: int) -> int:
    say(f"error: {problem}")
    return code


def say(text: str) -> None:
    """A line on standard error; controls, and what the terminal cannot show, are escaped."""
    if sys.stderr is None:
        return
    encoding = sys.stderr.encoding or "utf-8"
    with suppress(OSError):  # nobody is left to be told
        sys.stderr.write(f"capmeter: {printable(text)}\n".encode(encoding, "backslashreplace").decode(encoding))
        sys.stderr.flush()
