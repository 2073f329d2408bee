"""Makes docs/parameters.md: every metric, transform and test of significance with its parameters, as they are declared.

python scripts/parameters.py
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from capmeter.core.named import Named, parameters_of
from capmeter.core.registry import Registry
from capmeter.evaluation.registry import METRICS
from capmeter.judgments.protocol import Protocol
from capmeter.meta.significance_tests import TESTS
from capmeter.transforms.registry import TRANSFORMS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "parameters.md"
HEAD = """# Parameters

Every name may carry parameters in parentheses: `cider-d(n=4,sigma=6.0)`, in code, on the command line and in files
alike. What is left out has its default. `capmeter list NAME` shows the same of one name, and of those that other
packages add. This page is made by `python scripts/parameters.py`.
"""
KINDS: tuple[tuple[str, Registry[Any]], ...] = (
    ("Metrics", METRICS),
    ("Transforms", TRANSFORMS),
    ("Tests of significance", TESTS),
)


def section(name: str, kind: type[Named], fixed: Any = ()) -> str:
    """A name, its summary, and a row for each parameter."""
    rows = [
        f"| `{each.name}` | {_cell(each.expected)} | {_cell(each.to_dict()['default'])} | {_cell(each.help)} |"
        for each in parameters_of(kind).values()
        if each.name not in fixed
    ]
    table = ["", "| parameter | is | default | meaning |", "|---|---|---|---|", *rows] if rows else []
    return "\n".join([f"### {name}", "", f"{kind.SUMMARY[0].upper()}{kind.SUMMARY[1:]}.", *table])


def is_of_this_project(registry: Registry[Any], name: str) -> bool:
    """Whether the library or capmeter-research provides a name."""
    return (registry.entry(name).package or "capmeter-research").startswith("capmeter-research")


def sections() -> Iterator[str]:
    """The page, part by part."""
    yield HEAD.rstrip()
    for title, registry in KINDS:
        yield f"## {title}"
        for name in registry.available():
            if is_of_this_project(registry, name):
                yield section(name, registry.class_of(name), registry.entry(name).implied_parameters)
    yield "## Protocols"
    yield section("protocol", Protocol, {"name"})


def _cell(text: str | None) -> str:
    return (text or "").replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text("\n\n".join(sections()) + "\n", encoding="utf-8")
