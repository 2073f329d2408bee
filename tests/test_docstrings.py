"""Docstrings: public functions of three and more parameters describe each, and none that does not exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MODULES = sorted((ROOT / "src").rglob("*.py")) + sorted((ROOT / "research" / "src").rglob("*.py"))
_SECTION = re.compile(r"^(?:Args|Attributes):\n((?:(?: .*)?\n?)*)", re.MULTILINE)
_ENTRY = re.compile(r"^    ((?:\*{0,2}\w+)(?:, \*{0,2}\w+)*):", re.MULTILINE)


def documented_names(node: ast.FunctionDef | ast.ClassDef) -> Iterator[str]:
    """The names in the section of arguments or attributes of a docstring."""
    for section in _SECTION.findall(ast.get_docstring(node) or ""):
        for entry in _ENTRY.findall(section):
            yield from (name.strip("* ") for name in entry.split(","))


def parameters(function: ast.FunctionDef) -> set[str]:
    arguments = function.args
    listed = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg)
    return {each.arg for each in listed if each is not None}


def members(node: ast.ClassDef) -> set[str]:
    """Fields, methods, and what `self` is given."""
    names = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
    for each in ast.walk(node):
        if isinstance(each, ast.AnnAssign | ast.Attribute):
            target = each.target if isinstance(each, ast.AnnAssign) else each
            names.add(target.id if isinstance(target, ast.Name) else getattr(target, "attr", ""))
        elif isinstance(each, ast.FunctionDef) and each.name == "__init__":
            names |= parameters(each)
    return names


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_documented_arguments_exist(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef):
            unknown = set(documented_names(node)) - parameters(node)
        elif isinstance(node, ast.ClassDef) and not node.bases:
            unknown = set(documented_names(node)) - members(node)
        else:
            continue
        assert not unknown, f"{node.name} documents {', '.join(sorted(unknown))}, which it does not have"


def public_functions(tree: ast.Module | ast.ClassDef) -> Iterator[ast.FunctionDef]:
    """Functions and methods without a leading underscore, of classes without one; overrides have their base's text."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from public_functions(node)
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            decorators = {getattr(each, "id", getattr(each, "attr", "")) for each in node.decorator_list}
            if not decorators & {"override", "overload"}:
                yield node


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_public_functions_describe_their_arguments(path: Path) -> None:
    for function in public_functions(ast.parse(path.read_text(encoding="utf-8"))):
        names = parameters(function) - {"self", "cls"}
        missing = names - set(documented_names(function)) if len(names) >= 3 else set()
        assert not missing, f"{function.name} does not describe {', '.join(sorted(missing))}"


def test_sections_are_read() -> None:
    docstring = "Adds.\n\n    Args:\n        a: one.\n        *b, c: others,\n            and more: of them.\n    "
    (function,) = ast.parse(f'def f(a, *b):\n    """{docstring}"""').body
    assert isinstance(function, ast.FunctionDef)
    assert set(documented_names(function)) - parameters(function) == {"c"}
