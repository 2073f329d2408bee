"""Standard input as a source of captions: `-`, `/dev/stdin`, and what a shell passes as `/dev/fd/N`.

Captions are read more than once (what format are they in? which images have several candidates?), so what comes through
a pipe is copied to a temporary file first. It is removed when Python ends.
"""

from __future__ import annotations

import atexit
import os
import stat
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

from capmeter.errors import InputError

NAME = "standard input"


def is_standard_input(path: str | os.PathLike[str]) -> bool:
    """Whether this names standard input, or another open pipe of this process."""
    text = os.fspath(path)
    return text in ("-", "/dev/stdin") or (text.startswith("/dev/fd/") and text[8:].isdigit())


def regular(path: str | os.PathLike[str]) -> Path:
    """The path itself, or a copy of the content of the pipe that it names."""
    return _copy(os.fspath(path)) if is_standard_input(path) else Path(path)


@cache
def _copy(path: str) -> Path:
    import shutil  # which only pipes need
    import tempfile

    try:
        number = sys.stdin.fileno() if path in ("-", "/dev/stdin") else int(path[8:])
        mode = os.fstat(number).st_mode
        if stat.S_ISREG(mode) and path != "-":
            return Path(path)
        if os.isatty(number):
            raise InputError(f"{NAME} is a terminal; pipe captions in, or name a file")
        handle, name = tempfile.mkstemp(prefix="capmeter-", suffix=".captions")
        atexit.register(_remove, name)
        with os.fdopen(handle, "wb") as target, os.fdopen(os.dup(number), "rb") as source:
            shutil.copyfileobj(source, target, 1 << 20)
    except (OSError, ValueError, AttributeError) as error:
        raise InputError(f"{NAME} cannot be read ({error}); name a file instead") from None
    return Path(name)


def _remove(name: str) -> None:
    with suppress(OSError):
        Path(name).unlink()
