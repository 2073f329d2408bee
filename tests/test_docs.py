"""The pages of documentation whose examples are run."""

from __future__ import annotations

import doctest
import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

from capmeter.cli.main import commands
from capmeter.core.errors import InputError
from capmeter.evaluation.registry import METRICS

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), *(ROOT / "research" / "docs").glob("*.md")])


@pytest.mark.parametrize(
    "page", ["docs/writing-a-metric.md", "docs/training-reward.md", "research/docs/synthetic-scenes.md"]
)
def test_examples_do_what_the_page_says(page: str) -> None:
    if page == "docs/training-reward.md":
        pytest.importorskip("torch", reason="its loop of training needs the neural extra")
    result = doctest.testfile(str(ROOT / page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted > 5 and result.failed == 0


@pytest.mark.parametrize("page", [*sorted(ROOT.glob("*.md")), *PAGES], ids=lambda page: page.name)
def test_links_to_files_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text("utf-8")):
        assert "://" in target or (page.parent / target).exists() or _is_made(target), target


def _is_made(target: str) -> bool:
    """Whether a link leads to a page that is made when the site is built (`make docs`)."""
    folder, _, name = target.removesuffix(".md").rpartition("/")
    expected_names = {"metrics": ["index", *METRICS.names()], "commands": ["index", *commands()]}
    return name in expected_names.get(folder, ("api", "changelog", "contributing", "examples", "plugin"))


def project(folder: Path = ROOT) -> dict[str, Any]:
    tomllib = pytest.importorskip("tomllib", reason="needs Python 3.11")
    return dict(tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"])


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.name)
def test_extras_on_pages_exist(page: Path) -> None:
    text = page.read_text("utf-8")
    named = re.findall(r"(?:capmeter|`|\.)\[([a-z]\w*(?:,\w+)*)\]", text)
    sizes = text.partition("| extra | packages | MB |")[2].partition("\n\n")[0]
    named += [name for name in re.findall(r"^\| `?(\w+)`? \|", sizes, re.MULTILINE) if name != "none"]
    expected_names = {extra for each in (ROOT, ROOT / "research") for extra in project(each)["optional-dependencies"]}
    assert {extra for names in named for extra in names.split(",")} <= expected_names


def test_numbers_of_what_is_installed() -> None:
    count = ("eight", "nine", "ten", "eleven", "twelve")[len(project()["dependencies"]) - 8]
    assert f"The core has {count} dependencies" in (DOCS / "faq.md").read_text("utf-8")


def test_what_aac_metrics_has_alone_is_refused() -> None:
    from capmeter.integrations.aac_metrics import evaluate

    sentence = re.search(r"What it has and\s+capmeter has not \((.*?)\)", (DOCS / "adapters.md").read_text("utf-8"))
    assert sentence is not None
    for name in re.findall(r"`(\w+)`", sentence[1]):
        assert f"`{name}`" in (DOCS / "audio.md").read_text("utf-8")
        with pytest.raises(InputError, match=name):
            evaluate(["a dog"], [["a dog barks"]], metrics=[name])


def test_made_parts_of_pages_are_what_metrics_declare() -> None:
    spec = importlib.util.spec_from_file_location("generate_docs", ROOT / "scripts" / "site" / "generate_docs.py")
    assert spec is not None and spec.loader is not None
    output = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(output)
    parts = set()
    for page in output.PAGES:
        for _, part, text, _ in output.PART.findall((ROOT / page).read_text("utf-8")):
            metrics = [name for name in output.metric_names() if name in re.findall(r"[\w-]+", text)]
            expected = output.make_part(part, "docs" if page.startswith("docs/") else "", metrics)
            assert text == expected and len(metrics) > 25, f"{page}: run scripts/site/generate_docs.py"
            parts.add(part)
    assert parts == set(output.PARTS)


def test_every_metric_says_what_the_documentation_needs() -> None:
    for name in METRICS.names():
        metric = METRICS.class_of(name)
        if metric.__module__.startswith("capmeter"):
            assert metric.FAMILY != "Other metrics" and metric.MISLEADS and metric.FORMULA, name
            assert not metric.GUIDE or (ROOT / metric.GUIDE).is_file() or (ROOT / "research" / metric.GUIDE).is_file()


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_what_was_chosen_says_on_what_and_of_how_many(page: Path) -> None:
    """Every section in which something was chosen says what it was selected and confirmed on, and what was tried."""
    for section in re.split(r"^#{2,3} ", page.read_text("utf-8"), flags=re.MULTILINE):
        if re.search(r"(was|were|been) chosen|chosen (among|from)|[Ss]elected on\*\*", section):
            lines = " ".join(section.split()).lower()
            count = lines.count("**selected on**")
            assert count and lines.count("**confirmed on**") == count == lines.count("**tried**"), section[:60]
