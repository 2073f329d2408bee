"""Runs the commands that the site shows, on the example captions, and gives what they print.

`capmeter` runs inside this process, so that a hundred commands load the libraries once. What it prints is what it would
print into a pipe: results and notes in the order of their streams.
"""

from __future__ import annotations

import io
import logging
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_SHELL = re.compile(r"[|;&<>]")
LINES = 40
# an interrupt is an interrupt, also where this process was started in the background, and ignores it
STARTED = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from capmeter.cli.main import main; main()"
)
_log = logging.getLogger("capmeter.site")


def transcript(commands: list[str], folder: Path, expected: int = 0) -> str:
    """The commands and what they print, as in a terminal. The last may end with `expected`."""
    parts = []
    for k, command in enumerate(commands):
        code, text = _run(command, folder)
        expected_code = expected if k == len(commands) - 1 else 0
        if code != expected_code:
            _log.warning(
                "%s: exit code %d, expected %d\n%s", command, code, expected_code, text
            )  # which a strict build refuses
        parts.append(f"$ {fold_command(command)}\n{_shortened(text)}".rstrip())
    return "\n".join(parts)


def fold_command(command: str, width: int = 80) -> str:
    """A command on lines of at most so many characters where its words allow it, joined by backslashes.

    An option stays on the line of its value.

    >>> print(fold_command("capmeter score a.json -m cider-d --format csv", 30))
    capmeter score a.json \\
        -m cider-d --format csv
    """
    words = re.findall(r"""(?:[^\s'"]|'[^']*'|"[^"]*")+""", command)
    units: list[str] = []
    for word in words:
        is_value = units and re.fullmatch(r"--?\w[\w-]*", units[-1]) and not word.startswith("-")
        units[-1:] = [f"{units[-1]} {word}"] if is_value else [*units[-1:], word]
    lines = [units[0]]
    for unit in units[1:]:
        fits = unit == "\\" or len(lines[-1]) + len(unit) + 3 <= width
        lines[-1:] = [f"{lines[-1]} {unit}"] if fits else [lines[-1], f"    {unit}"]
    return " \\\n".join(lines)


def _run(command: str, folder: Path) -> tuple[int, str]:
    if command.startswith("capmeter view "):
        return _served(command, folder)
    if command.startswith("capmeter ") and not _SHELL.search(command):
        return _inside(shlex.split(command), folder)
    # this Python's own `capmeter`, also where its environment is not activated
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    done = subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def _inside(arguments: list[str], folder: Path) -> tuple[int, str]:
    """One command of capmeter in this process."""
    from capmeter.cli.main import main

    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2)]
    before, code = (sys.argv, sys.stdin, sys.stdout, sys.stderr), 0
    with _inside_folder(folder), open(os.devnull) as nothing:  # noqa: PTH123
        sys.argv, sys.stdin, (sys.stdout, sys.stderr) = arguments, nothing, streams
        try:
            main()
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
        finally:
            sys.argv, sys.stdin, sys.stdout, sys.stderr = before
    return code, "".join(stream.buffer.getvalue().decode() for stream in streams)  # type: ignore[attr-defined]


@contextmanager
def _inside_folder(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _served(command: str, folder: Path) -> tuple[int, str]:
    """A command that serves until it is interrupted: what it prints once it serves, and when it is interrupted."""
    arguments = [sys.executable, "-c", STARTED, *shlex.split(command)[1:]]
    with subprocess.Popen(
        arguments, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as running:
        assert running.stdout is not None
        first = [running.stdout.readline(), running.stdout.readline()]
        running.send_signal(signal.SIGINT)
        return running.wait(), "".join([*first, "^C\n", running.stdout.read()])


def _shortened(text: str) -> str:
    """Lines without the blanks that fill a table, places on this machine by what they are, long outputs cut."""
    for path, name in ((str(ROOT), "."), (sys.prefix, ".venv"), (str(Path.home()), "~")):
        text = text.replace(path, name)
    lines = [line.rstrip() for line in text.splitlines()]
    lines = [line for k, line in enumerate(lines) if line or (k and lines[k - 1])]
    if len(lines) > LINES:
        lines = [*lines[: LINES - 5], f"… {len(lines) - LINES + 5} more lines"]
    return "\n".join(lines)
