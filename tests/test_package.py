"""The package as a whole: what importing it costs, and what it offers."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import capmeter

ROOT = Path(__file__).resolve().parents[1]


def test_import_loads_nothing_heavy() -> None:
    heavy = "{'torch', 'pandas', 'transformers', 'pyarrow', 'scipy', 'numpy'}"
    code = f"import sys, capmeter; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_numpy_s_threads_wait_as_long_as_the_user_says() -> None:
    code = "import os, capmeter; print(os.environ['OPENBLAS_THREAD_TIMEOUT'])"
    others = {key: value for key, value in os.environ.items() if key != "OPENBLAS_THREAD_TIMEOUT"}
    for given, expected in ({}, "20"), ({"OPENBLAS_THREAD_TIMEOUT": "26"}, "26"):
        found = subprocess.run([sys.executable, "-c", code], env=others | given, capture_output=True, check=True)
        assert found.stdout.split() == [expected.encode()]


@pytest.mark.parametrize("name", [each for each in capmeter.__all__ if each != "__version__"])
def test_every_public_name_is_there_and_says_what_it_is(name: str) -> None:
    found = getattr(capmeter, name)
    assert found.__name__ == name and found.__doc__


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse((ROOT / "src/capmeter/__init__.py").read_text("utf-8"))
    (seen,) = [node for node in tree.body if isinstance(node, ast.If)]
    imported = {
        (alias.name, node.module) for node in seen.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert imported == set(capmeter._PUBLIC.items())


def test_the_documentation_lists_every_public_name() -> None:
    page = (ROOT / "docs/python.md").read_text("utf-8")
    assert set(re.findall(r"^\| `(\w+)`", page, re.MULTILINE)) == set(capmeter.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'scores'"):
        _ = capmeter.scores
