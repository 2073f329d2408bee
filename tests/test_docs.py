"""The pages of documentation whose examples are run."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"


@pytest.mark.parametrize("page", ["writing-a-metric.md", "training-reward.md", "made-world.md"])
def test_examples_do_what_the_page_says(page: str) -> None:
    found = doctest.testfile(str(DOCS / page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.attempted > 5 and found.failed == 0


@pytest.mark.parametrize("page", sorted([*ROOT.glob("*.md"), *DOCS.glob("*.md")]), ids=lambda page: page.name)
def test_links_to_files_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text("utf-8")):
        assert "://" in target or (page.parent / target).exists(), target
