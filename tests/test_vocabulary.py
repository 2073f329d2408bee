"""The vocabulary of code and pages: names say what they hold, one name for one class, the field's terms in texts.

CONTRIBUTING.md has the glossary.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = [path for top in ("src", "research/src") for path in sorted((ROOT / top).rglob("*.py"))]
AROUND = [
    path
    for top in ("tests", "scripts", "benchmarks", "examples", "research/tests")
    for path in sorted((ROOT / top).rglob("*.py"))
]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES += [ROOT / "research" / "README.md", *sorted((ROOT / "research" / "docs").glob("*.md"))]
# participles and adverbs that say nothing of what a name holds
VAGUE = {
    *(
        "found",
        "told",
        "said",
        "made",
        "kept",
        "known",
        "given",
        "wanted",
        "there",
        "theirs",
        "mine",
        "drawn",
        "chosen",
    ),
    *("own", "place", "things", "asked", "held", "apart", "near", "alike", "seen", "heard", "begun", "ended", "taken"),
    *("written", "shown", "counted", "judged", "beaten", "beats", "knowing", "worthwhile", "here", "whole"),
}
MOST_VAGUE, LEAST_COMPOUND = 0.01, 0.15  # of all local names, parameters and fields
# the drop-in replacement for pycocoevalcap has the names of that package
SHARED_CLASSES = {"Bleu", "Cider", "Meteor", "Spice"}
BANNED = re.compile(
    r"\bso many\b|\bmade (world|scenes?|wrong)\b|\bwrong forms?\b|\btold apart\b|\bgraph maker\b|\b(is|are) told\b"
    r"|(?<!there )\bis no (?!longer\b|more\b|such\b)\w+|\blies? (in|under|outside|beside)\b|\blikelie(r|st)\b"
    r"|\bsaid twice\b|\bby heart\b|\bamong themselves\b|\bof a core\b|\bwhat is no\b|\bmended\b",
    re.IGNORECASE,
)


def trees() -> Iterator[tuple[Path, ast.Module]]:
    for path in SOURCES:
        yield path, ast.parse(path.read_text(encoding="utf-8"))


def count_local_names(paths: Iterable[Path]) -> Counter[str]:
    """The names of local variables, parameters and fields, with the number of places where each gets its value."""
    names: Counter[str] = Counter()
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names[node.id] += 1
            elif isinstance(node, ast.arg):
                names[node.arg] += 1
    return names


@pytest.mark.parametrize("paths", [SOURCES, AROUND], ids=["packages", "tests, scripts, benchmarks and examples"])
def test_names_say_what_they_hold(paths: list[Path]) -> None:
    names = count_local_names(paths)
    vague = {name: count for name, count in names.items() if name.strip("_") in VAGUE}
    assert sum(vague.values()) <= MOST_VAGUE * sum(names.values()), sorted(vague.items(), key=lambda item: -item[1])


def test_names_of_the_packages_have_several_words() -> None:
    names = count_local_names(SOURCES)
    compound = sum(count for name, count in names.items() if "_" in name.strip("_"))
    assert compound >= LEAST_COMPOUND * sum(names.values())


def test_public_functions_and_classes_have_no_vague_name() -> None:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    vague = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, kinds) and node.name.lower() in VAGUE
    ]
    assert vague == []


@pytest.mark.parametrize("distribution", ["src/capmeter", "research/src"])
def test_a_public_class_name_is_used_once_in_a_distribution(distribution: str) -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path, tree in trees():
        for node in ast.walk(tree) if path.is_relative_to(ROOT / distribution) else ():
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert {name: each for name, each in places.items() if len(each) > 1 and name not in SHARED_CLASSES} == {}


def docstrings(tree: ast.Module) -> set[int]:
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    first = (node.body[0] for node in ast.walk(tree) if isinstance(node, owners) and node.body)
    return {id(each.value) for each in first if isinstance(each, ast.Expr)}


def test_messages_and_help_use_the_fields_terms() -> None:
    hits = []
    for path, tree in trees():
        skipped = docstrings(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
                location = f"{path.relative_to(ROOT)}:{node.lineno}"
                hits += [f"{location} {match[0]}" for match in BANNED.finditer(node.value)]
    assert hits == []


def test_pages_use_the_fields_terms() -> None:
    hits = [
        f"{page.relative_to(ROOT)}:{number} {match[0]}"
        for page in PAGES
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
        for match in BANNED.finditer(line)
    ]
    assert hits == []
