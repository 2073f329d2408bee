"""The tables of the documentation are what their commands print: the checker, and the cheap commands."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support import command_line

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def checker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_docs", ROOT / "scripts" / "check_docs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["check_docs"] = module
    spec.loader.exec_module(module)
    return module


PAGE = """# A page

<!-- check: capmeter meta -b rated -d x.jsonl | within 0.05 | 0.5 minutes -->

| metric | tau | interval |
|---|---:|---|
| `bleu-1` | 32.3 | [30.3, 34.3] |

<!-- check: capmeter score x.jsonl | within 0 | 3 minutes -->
```
  rank   metric    tau-c
 ────────────────────────
     1   cider-d    43.9
```
"""
OUTPUT = 'metric,rank,tau,interval\nbleu-1,1,{},"[30.3, 34.3]"\n'


def test_a_number_off_the_page_is_found(checker: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(PAGE)
    table, block = checker.find_checks(tmp_path)
    assert (table.page, table.line, table.cheap, block.cheap) == ("page.md", 3, True, False)
    assert checker.differences(table, OUTPUT.format("32.34")) == []
    assert checker.differences(table, OUTPUT.format("32.4")) == ["bleu-1, tau: the page has 32.3, the output 32.4"]
    assert checker.differences(table, OUTPUT.replace("bleu", "rouge")) == [
        "bleu-1, tau: not in the output",
        "bleu-1, interval: not in the output",
    ]
    assert checker.differences(block, "rank metric tau-c\n1 cider-d 43.9\n") == []
    (problem,) = checker.differences(block, "rank metric tau-c\n1 cider-d 43.8\n")
    assert problem.endswith("1   cider-d    43.9")
    assert checker.agree("τ 1,024 (−.5)", "τ 1024 (-0.5)", 0) and not checker.agree("a 1", "b 1", 0)


def test_rows_are_found_by_the_pages_first_heading(checker: ModuleType) -> None:
    """`meta` prints the rank before the metric."""
    lines = ("| rank | metric | tau-b |", "| ---: | --- | ---: |", "| 1 | tbr | 57.0 |", "| 1 | wmd | 52.4 |")
    assert checker.read_rows(lines, "metric") == {
        "tbr": {"rank": "1", "tau-b": "57.0"},
        "wmd": {"rank": "1", "tau-b": "52.4"},
    }
    assert list(checker.read_rows(lines, "system")) == ["1"]  # no such heading


def test_a_column_of_names_without_a_heading_shifts_nothing(checker: ModuleType) -> None:
    rows = checker.read_rows(("|  | HC | mean |", "| --- | ---: | ---: |", "| lceval | 1 | 2 |"))
    assert rows == {"lceval": {"HC": "1", "mean": "2"}}


@pytest.mark.parametrize("text", ["<!-- check: capmeter list -->\n", PAGE.partition("| metric")[0]])
def test_a_check_of_nothing_is_refused(checker: ModuleType, tmp_path: Path, text: str) -> None:
    (tmp_path / "page.md").write_text(text)
    with pytest.raises(ValueError, match=r"page.md, line \d"):
        list(checker.find_checks(tmp_path))


def test_there_are_checks(checker: ModuleType) -> None:
    checks = list(checker.find_checks())
    assert sum(check.cheap for check in checks) >= 2
    assert {"benchmarks.md", "lceval.md"} <= {check.page for check in checks}


def run_here(checker: ModuleType, check: Any, data: Path) -> str:
    """What the command prints in the tests' process, which has its modules already."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", checker.COLUMNS)
        done = command_line.capmeter(*check.arguments[2:], folder=data)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_cheap_commands_print_what_the_pages_say(checker: ModuleType, shared: Path) -> None:
    """The first in a process of its own, as the script runs them; the others here."""
    first, *others = (check for check in checker.find_checks() if check.cheap)
    outputs = [(first, checker.run_command(first, shared / "data"))]
    outputs += [(check, run_here(checker, check, shared / "data")) for check in others]
    problems = {
        f"{check.page}:{check.line}": result
        for check, output in outputs
        if (result := checker.differences(check, output))
    }
    assert problems == {}
