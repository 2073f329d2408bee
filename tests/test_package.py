"""The package as a whole: what importing it costs, and what it offers."""

from __future__ import annotations

import ast
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
