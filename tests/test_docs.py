"""The pages of documentation whose examples are run."""

from __future__ import annotations

import doctest
import importlib.util
import re
from pathlib import Path

import pytest

from capmeter.cli.main import commands
from capmeter.evaluation.registry import METRICS

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"


@pytest.mark.parametrize("page", ["writing-a-metric.md", "training-reward.md", "synthetic-scenes.md"])
def test_examples_do_what_the_page_says(page: str) -> None:
    if page == "training-reward.md":
        pytest.importorskip("torch", reason="its loop of training needs the neural extra")
    found = doctest.testfile(str(DOCS / page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.attempted > 5 and found.failed == 0


@pytest.mark.parametrize("page", sorted([*ROOT.glob("*.md"), *DOCS.glob("*.md")]), ids=lambda page: page.name)
def test_links_to_files_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text("utf-8")):
        assert "://" in target or (page.parent / target).exists() or _is_made(target), target


def _is_made(target: str) -> bool:
    """Whether a link leads to a page that is made when the site is built (`make docs`)."""
    folder, _, name = target.removesuffix(".md").rpartition("/")
    known = {"metrics": ["index", *METRICS.builtin], "commands": ["index", *commands()]}
    return name in known.get(folder, ("api", "changelog", "contributing", "examples", "plugin"))


def test_the_page_of_parameters_says_what_is_declared() -> None:
    spec = importlib.util.spec_from_file_location("parameters", ROOT / "scripts" / "parameters.py")
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    page = (DOCS / "parameters.md").read_text("utf-8")
    known = {part.splitlines()[0]: part for part in made.sections()}
    told = {part.splitlines()[0]: part for part in re.split(r"\n\n(?=#)", page.rstrip())}
    assert set(told) >= {"### cider-d", "### spice", "### permutation", "### protocol"}
    wrong = [name for name, part in told.items() if known.get(name) != part]
    assert not wrong, f"run scripts/parameters.py: {', '.join(wrong)}"
