"""The house: a floor imports only floors below it, nothing heavy at import time, no module over 500 lines."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "capmeter"
FOUNDATION = {"errors", "progress", "ragged"}
GROUND = {"captions", "text", "encoders", "stats"}
BELOW = {
    "captions": set(),
    "text": set(),
    "encoders": set(),
    "stats": set(),
    "metrics": GROUND,
    "learning": GROUND | {"metrics"},
    "meta": GROUND | {"metrics", "learning"},
    "report": GROUND | {"metrics", "learning", "meta"},
    "integrations": GROUND | {"metrics", "learning", "meta", "report"},
    "cli": GROUND | {"metrics", "learning", "meta", "report", "integrations"},
}
HEAVY = {"torch", "transformers", "scipy", "pandas", "pyarrow", "nltk", "matplotlib", "plotly", "jinja2", "ray"}
MODULES = sorted(SOURCE.rglob("*.py"))


def imported(tree: ast.AST) -> Iterator[tuple[str, bool]]:
    """Every imported module's full name, and whether the import runs when the module is loaded."""

    def visit(node: ast.AST, at_load: bool) -> Iterator[tuple[str, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                yield from ((alias.name, at_load) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, "relative imports hide the floor"
                yield child.module or "", at_load
                yield from ((f"{child.module}.{alias.name}", at_load) for alias in child.names)
            elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                yield from visit(child, False)
            else:
                inner = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
                yield from visit(child, at_load and not inner)

    yield from visit(tree, True)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_module_keeps_the_house_rules(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= 500, "over 500 lines"
    floor = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    for name, at_load in imported(ast.parse(text)):
        parts = name.split(".")
        if at_load:
            assert parts[0] not in HEAVY, f"{name} is imported at load time"
        if parts[0] == "capmeter" and len(parts) > 1 and floor in BELOW and parts[1] in BELOW:
            assert parts[1] == floor or parts[1] in BELOW[floor], f"{floor} must not import {name}"
        if floor in FOUNDATION and parts[0] == "capmeter" and len(parts) > 1:
            assert parts[1] in FOUNDATION | {"__version__"}, f"{floor} must not import {name}"
