"""The pages of documentation whose examples are run."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"


@pytest.mark.parametrize("page", ["writing-a-metric.md", "training-reward.md"])
def test_examples_do_what_the_page_says(page: str) -> None:
    found = doctest.testfile(str(DOCS / page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.attempted > 5 and found.failed == 0


@pytest.mark.parametrize("page", sorted(each.name for each in DOCS.glob("*.md")))
def test_links_to_files_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)", (DOCS / page).read_text("utf-8")):
        assert "://" in target or (DOCS / target).exists(), target
