"""docs/tasks.md: what a stranger does there gives what the page says.

`.ci/stranger` does all five tasks in an empty environment; here are those that need no installation.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = f"exec '{sys.executable}' -c 'from capmeter.cli.main import main; main()' \"$@\""


@pytest.fixture(scope="module")
def tasks() -> Any:
    spec = importlib.util.spec_from_file_location("tasks", ROOT / ".ci" / "tasks.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder where `capmeter` and `python` are this checkout's."""
    folder = tmp_path_factory.mktemp("programs")
    for name, text in (("capmeter", PROGRAM), ("python", f"exec '{sys.executable}' \"$@\"")):
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return str(folder)


@pytest.mark.skipif(os.name == "nt", reason="runs commands in a shell")
@pytest.mark.parametrize("number", [1, pytest.param(3, marks=pytest.mark.neural), 5])
def test_a_task_is_done_as_it_is_written(tasks: Any, programs: str, tmp_path: Path, number: int) -> None:
    if number == 3:
        pytest.importorskip("torch", reason="needs torch")
    section = list(tasks.sections((ROOT / "docs" / "tasks.md").read_text("utf-8")).values())[number - 1]
    assert tasks.follow(section, tmp_path, programs) == []


def test_what_is_not_as_written_is_found(tasks: Any, tmp_path: Path) -> None:
    page = '## One\n\n```text title="a.txt"\nhello\n```\n\n```console\n$ cat a.txt\nhello\n$ echo 1...\n2\n```\n'
    (wrong,) = tasks.follow(tasks.sections(page)["One"], tmp_path)
    assert wrong.startswith("$ echo 1...\nexit code 0\n1...\n")
    assert tasks.follow("```console\n$ false\n```\n", tmp_path)[0].startswith("$ false\nexit code 1")
    assert len(tasks.sections((ROOT / "docs" / "tasks.md").read_text("utf-8"))) == 5
