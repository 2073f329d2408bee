"""The house: a room imports only rooms below it, no circle, nothing heavy at import time, no module over 400 lines."""

from __future__ import annotations

import ast
import graphlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "capmeter"
GROUND = {"errors", "progress", "ragged", "named", "registry", "settings", "assets", "store", "atomic", "arrays"}
GROUND |= {"checkpoints", "printable", "recent", "_version"}
SIDE_BY_SIDE = {"captions", "text", "images", "encoders", "stats"}
ON_THEM = SIDE_BY_SIDE | {"transforms", "judgments"}
# room: the rooms below it
BELOW: dict[str, set[str]] = {
    "captions": set(),
    "encoders": {"captions"},
    "stats": set(),
    "text": {"captions", "encoders"},
    "images": {"captions", "encoders"},
    "transforms": SIDE_BY_SIDE,
    "judgments": SIDE_BY_SIDE,
    "metrics": SIDE_BY_SIDE,
    "learning": ON_THEM | {"metrics"},
    "meta": ON_THEM | {"metrics"},
    "report": ON_THEM | {"metrics", "learning", "meta"},
    "integrations": ON_THEM | {"metrics", "learning", "meta", "report"},
    "cli": ON_THEM | {"metrics", "learning", "meta", "report", "integrations"},
}
LONGEST = 400
HEAVY = {"torch", "transformers", "scipy", "pandas", "pyarrow", "nltk", "matplotlib", "plotly", "jinja2", "ray"}
HEAVY |= {"torchmetrics", "evaluate", "datasets", "polars", "duckdb", "lightning", "wandb", "mlflow"}
# adapters whose classes are made of another library's: they import it when they are loaded, and nothing imports them
ADAPTERS = re.compile(r"integrations/(torchmetrics|evaluate|wandb|mlflow)\.py")
# they import torch when they are loaded, so nothing but their like imports them when it is loaded
NETWORKS = re.compile(
    r"learning/(loop|capmeter/(judging|words))\.py|(learning|metrics|encoders)/\w+/(network|training|tuning|averaged|run)\.py"
)
MODULES = sorted(SOURCE.rglob("*.py"))


def imported(tree: ast.AST) -> Iterator[tuple[str, bool]]:
    """Every imported module's full name, and whether the import runs when the module is loaded."""

    def visit(node: ast.AST, at_load: bool) -> Iterator[tuple[str, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                yield from ((alias.name, at_load) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, "relative imports hide the floor"
                if child.module != "capmeter":
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
    assert text.count("\n") <= LONGEST, f"over {LONGEST} lines"
    network = bool(NETWORKS.fullmatch(path.relative_to(SOURCE).as_posix()))
    adapter = bool(ADAPTERS.fullmatch(path.relative_to(SOURCE).as_posix()))
    room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    for name, at_load in imported(ast.parse(text)):
        parts = name.split(".")
        if at_load:
            assert parts[0] not in HEAVY or network or adapter, f"{name} is imported at load time"
            heavy = NETWORKS.fullmatch(f"{'/'.join(parts[1:])}.py")
            assert network or not heavy, f"{name} imports torch and is imported at load time"
        if parts[0] != "capmeter" or room == "__init__":
            continue
        assert not ADAPTERS.fullmatch(f"{'/'.join(parts[1:])}.py"), f"{name} needs its library: nothing imports it"
        assert len(parts) > 1, "the package's face is for its users: import the room"
        if room in GROUND:
            assert parts[1] in GROUND, f"{room} must not import {name}"
        else:
            assert parts[1] in GROUND | {room} | BELOW[room], f"{room} must not import {name}"


def test_no_circle() -> None:
    """Modules import one another in one direction, inside a room too, and inside functions too."""
    known = {".".join(("capmeter", *path.relative_to(SOURCE).with_suffix("").parts)): path for path in MODULES}
    known = {name.removesuffix(".__init__"): path for name, path in known.items()}
    graph: dict[str, set[str]] = {}
    for name, path in known.items():
        wanted = {each for each, _ in imported(ast.parse(path.read_text(encoding="utf-8")))}
        graph[name] = {each for each in wanted if each in known} - {name}
    graph["capmeter"] = set()  # the face imports everything, lazily, and nothing imports it
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as circle:
        pytest.fail(" -> ".join(circle.args[1]))
