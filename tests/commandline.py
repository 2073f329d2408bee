"""The command line inside the tests' own process: what it prints and its exit code, without a new Python each time."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest


def capmeter(*arguments: object, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """What `capmeter ARGUMENTS` does, as `subprocess.run` would tell it. Standard input is empty."""
    from capmeter.cli.main import main

    given = list(map(str, arguments))
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch, open(os.devnull) as nothing:  # noqa: PTH123
        patch.setattr(sys, "argv", ["capmeter", *given])
        patch.setattr(sys, "stdin", nothing)
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        if folder is not None:
            patch.chdir(folder)
        code = 0
        try:
            main()
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    said = [stream.buffer.getvalue().decode() for stream in (out, err)]  # type: ignore[attr-defined]
    return subprocess.CompletedProcess(given, code, *said)
