"""The command line inside the tests' own process: its output and exit code, without a new Python each time."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest


def capmeter(
    *arguments: object, folder: Path | None = None, added: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """The outcome of `capmeter ARGUMENTS`, as `subprocess.run` would return it. Standard input is empty.

    Args:
        arguments: the command line without the program's name.
        folder: the working directory.
        added: the commands of other packages (None: those that are installed).
    """
    from capmeter.cli.main import main

    texts = list(map(str, arguments))
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch, open(os.devnull) as nothing:  # noqa: PTH123
        patch.setattr(sys, "argv", ["capmeter", *texts])
        patch.setattr(sys, "stdin", nothing)
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        if added is not None:
            patch.setattr("capmeter.cli.main._added_commands", lambda: added)
        if folder is not None:
            patch.chdir(folder)
        code = 0
        try:
            main()
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    output, errors = (stream.buffer.getvalue().decode() for stream in (out, err))  # type: ignore[attr-defined]
    return subprocess.CompletedProcess(texts, code, output, errors)
