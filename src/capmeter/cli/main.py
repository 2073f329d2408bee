"""The command `capmeter`: loads the requested command and turns errors into exit codes.

Exit codes: 0 done, 1 the input is bad or the output cannot be written, 2 wrong usage of the command, 3 something
optional is missing, 4 a requested check failed (`score --minimum`, `compare --fail-if-worse`).
"""

from __future__ import annotations

import functools
import gc
import importlib
import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperCommand, TyperGroup

from capmeter._version import __version__
from capmeter.cli.command import escaped_usage_errors
from capmeter.core.errors import AssetError, CapmeterError, MissingBackend
from capmeter.core.messages import escape_controls, fold_line
from capmeter.core.registry import find_package


class _OutputError(CapmeterError):
    """Standard output could not be written (exit code 1)."""


class _StandardOutput:
    """A text stream whose failures are `_OutputError`; characters outside its encoding are escaped. None: closed."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self.encoding = (stream.encoding if stream is not None else None) or "utf-8"

    def write(self, text: str) -> int:
        """Writes the text, possibly part of it to a buffer."""
        escaped_text = text.encode(self.encoding, "backslashreplace").decode(self.encoding)
        with self._failures():
            if self._stream is None:
                raise BrokenPipeError
            self._stream.write(escaped_text)
        return len(text)

    def flush(self) -> None:
        """Flushes the buffer."""
        with self._failures():
            if self._stream is not None:
                self._stream.flush()

    def isatty(self) -> bool:
        """Whether this is a terminal."""
        return self._stream is not None and self._stream.isatty()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            self._forget()
            raise _OutputError("standard output was closed before everything was printed") from None
        except OSError as problem:
            self._forget()
            raise _OutputError(f"standard output cannot be written ({problem.strerror or problem})") from None

    def _forget(self) -> None:
        """Drops what is still buffered, so that closing does not fail again."""
        stream, self._stream = self._stream, None
        if stream is None:
            return
        with suppress(OSError, ValueError):
            null_file = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null_file, stream.fileno())
            os.close(null_file)


@contextmanager
def _guarded_output() -> Iterator[_StandardOutput]:
    """Standard output as a `_StandardOutput`, while the block runs."""
    original_output = sys.stdout
    output = _StandardOutput(original_output)
    sys.stdout = output
    try:
        yield output
    finally:
        sys.stdout = original_output


CHECK_FAILED = 4
_COLLECTED = 50_000  # new objects between two searches for cycles (Python: 700): captions are many, and have none
_COMMAND_NAMES = (
    *("demo", "score", "explain", "report", "view", "list", "validate", "convert", "idf", "compare", "chair"),
    *("robustness", "meta", "calibrate", "schema", "mcp", "doctor"),
)
COMMANDS = {name: f"{__package__}.{name}" for name in _COMMAND_NAMES}


@functools.cache
def _added_commands() -> dict[str, str]:
    """The commands that installed packages add, with the modules that hold them; capmeter's names stay its own.

    A package adds a command through the entry point group `capmeter.commands`: name = the command, value = the module,
    whose `app` is a Typer application (`capmeter.cli.command.Application`).
    """
    from importlib.metadata import entry_points

    entries = sorted(entry_points(group="capmeter.commands"), key=lambda entry: entry.name)
    return {entry.name: entry.value for entry in entries if entry.name not in COMMANDS}


def commands() -> dict[str, str]:
    """All commands with the modules that hold them: capmeter's, then those that installed packages add."""
    return COMMANDS | _added_commands()


class _Commands(TyperGroup):
    """Loads a command's module when the command is used."""

    _completes_names = _has_command = False

    def list_commands(self, ctx: Any) -> list[str]:
        return list(commands())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        # a look at the installed packages takes as long as loading Typer
        module_name = COMMANDS.get(cmd_name) or _added_commands().get(cmd_name)
        if module_name is None:
            names: Any = dict.fromkeys(commands())  # which Typer compares with a misspelt one; none is loaded for it
            self.commands = names
            if package := find_package("commands", cmd_name):
                raise MissingBackend(f"`capmeter {cmd_name}`: {package}")
            return None
        if self._completes_names:
            return TyperCommand(cmd_name)
        command = typer.main.get_command(importlib.import_module(module_name).app)
        command.name = cmd_name
        return command

    def get_params(self, ctx: Any) -> list[Any]:
        """None for a call with a command, which uses none: Typer would load Pydantic to convert their defaults."""
        return [] if self._has_command else super().get_params(ctx)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        self._has_command = bool(args) and not args[0].startswith("-") and not ctx.resilient_parsing
        try:
            return super().parse_args(ctx, args)
        finally:
            self._has_command = False

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """What completes a command's name; no command is loaded for it."""
        self._completes_names = True
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self._completes_names = False

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        with escaped_usage_errors():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        with escaped_usage_errors():
            return super().invoke(ctx)


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _capmeter(version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False) -> None:
    """Evaluate image captions, with the evidence of how far each score can be trusted.

    Try `capmeter score results.json --references captions.json --metrics bleu-4,rouge-l,cider-d`.
    """
    if version:
        typer.echo(f"capmeter {__version__}")
        raise typer.Exit


def main() -> None:
    """Runs the command line and exits with its exit code."""
    # numpy's idle OpenBLAS threads spin for 2²⁰ cycles, under a millisecond, instead of 2²⁶, .07 s of processor time
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")
    gc.set_threshold(_COLLECTED)
    echo_once = functools.cache(echo)
    warnings.showwarning = lambda message, *_, **__: echo_once(f"warning: {message}")
    with _guarded_output() as standard_output:
        exit_code = _run()
        try:
            standard_output.flush()
        except _OutputError as problem:
            exit_code = _fail(problem, 1)
    gc.freeze()  # else Python looks through all that is left for cycles once more before it ends
    sys.exit(exit_code)


def _run() -> int:
    try:
        app(prog_name="capmeter")
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except (MissingBackend, AssetError) as problem:
        return _fail(problem, 3)
    except (CapmeterError, OSError) as problem:  # OSError: of a disk, or a file that fails while it is read
        return _fail(problem, 1)
    return 0


def _fail(problem: Exception, exit_code: int) -> int:
    echo(f"error: {problem}")
    return exit_code


def echo(text: str) -> None:
    """A line on standard error; controls, and what the terminal cannot show, are escaped."""
    if sys.stderr is None:
        return
    encoding = sys.stderr.encoding or "utf-8"
    with suppress(OSError):  # stderr is closed
        line = f"capmeter: {escape_controls(text)}"
        if sys.stderr.isatty():
            line = fold_line(line, shutil.get_terminal_size().columns)
        sys.stderr.write(f"{line}\n".encode(encoding, "backslashreplace").decode(encoding))
        sys.stderr.flush()
