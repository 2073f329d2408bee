"""Run the commands that made the tables of the documentation again, and compare the numbers with the pages.

    python scripts/check_docs.py FOLDER [PAGE ...]              the cheap ones
    python scripts/check_docs.py FOLDER [PAGE ...] --all        all of them
    python scripts/check_docs.py --list                         which there are

FOLDER holds the data that the commands name (`flickr8k_expert.jsonl.gz` …). A table or a block of output in docs/ is
checked if a comment before it names its command:

    <!-- check: capmeter study lceval hwcm --data composite.jsonl.gz | within 0.001 | 2 minutes -->

The command is run with `--format csv` where a table follows, for it has metrics by their full names, and as it is where
a block of output follows. Each number of a cell must be within the tolerance of the one in the output's cell of the
same column, in the row with the same cell under the page's first heading; the output may have more rows and columns.
Columns whose heading says `held-out` or `published` are not compared: no command prints them. A script is run as
`python scripts/NAME.py …`, and prints the table. Of a block of output every line must occur in the output, but for
spaces, with its numbers within the tolerance. A command is cheap if the comment says no more than a minute. Exit code
1: something differs.
"""

from __future__ import annotations

import argparse
import csv
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs", ROOT / "research" / "docs"
CHEAP_MINUTES = 1.0
COLUMNS = "160"  # of the terminal that the commands print for
_CHECK = re.compile(r"^<!-- check: (?P<command>.+?) \| within (?P<within>\S+) \| (?P<minutes>\S+) minutes? -->$")
_NUMBER = re.compile(r"[-+−]?(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+)")
Rows = dict[str, dict[str, str]]
"""Cells of a table by the first cell of their row and the heading of their column."""


@dataclass(frozen=True)
class Check:
    """A table or a block of output of a page, and the command that prints it."""

    page: str
    line: int  # of the comment, from 1
    command: str
    within: float
    minutes: float
    lines: tuple[str, ...]  # the table or the block

    @property
    def is_table(self) -> bool:
        """Whether a Markdown table is checked, not a block of output."""
        return self.lines[0].startswith("|")

    @property
    def arguments(self) -> list[str]:
        """The arguments of Python; a table is printed as CSV, by a script as Markdown."""
        program, *arguments = shlex.split(self.command)
        if program == "python":
            return [str(ROOT / arguments[0]), *arguments[1:]]
        return ["-m", "capmeter", *arguments, *(["--format", "csv"] if self.is_table else [])]

    @property
    def cheap(self) -> bool:
        """Whether the command takes no more than a minute."""
        return self.minutes <= CHEAP_MINUTES


def find_checks(*folders: Path) -> Iterator[Check]:
    """The checks of all pages of these folders; by default those of the documentation.

    Raises:
        ValueError: a comment is not followed by a table or a block of output, or cannot be read.
    """
    for page in sorted(page for folder in folders or DOCS for page in folder.glob("*.md")):
        lines = page.read_text("utf-8").splitlines()
        for number, text in enumerate(lines):
            if not text.startswith("<!-- check:"):
                continue
            match = _CHECK.match(text)
            if match is None:
                raise ValueError(f"{page.name}, line {number + 1}: expected `check: COMMAND | within T | M minutes`")
            start = next((k for k in range(number + 1, len(lines)) if lines[k].strip()), len(lines))
            fenced = start < len(lines) and lines[start].startswith("```")
            ends = (
                k
                for k in range(start + fenced, len(lines) + 1)
                if k == len(lines) or (lines[k].startswith("```") if fenced else not lines[k].startswith("|"))
            )
            content = tuple(lines[start + fenced : next(ends)])
            if not content:
                raise ValueError(f"{page.name}, line {number + 1}: expected a table or a block of output below")
            values = match.groupdict()
            within, minutes = float(values["within"]), float(values["minutes"])
            yield Check(page.name, number + 1, values["command"], within, minutes, content)


def run_command(check: Check, data: Path) -> str:
    """What the command prints; the folder of the data is its working folder."""
    done = subprocess.run(
        [sys.executable, *check.arguments],
        cwd=data,
        env={**os.environ, "COLUMNS": COLUMNS},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{check.command}: exit code {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout


def differences(check: Check, output: str) -> list[str]:
    """Where the page and the output differ."""
    if not check.is_table:
        return _different_lines(check, output)
    heading, printed_lines = _cells(check.lines[0])[0], output.splitlines()
    if not check.command.startswith("python "):
        printed_lines = [f"| {' | '.join(cells)} |" for cells in csv.reader(printed_lines)]
    page, printed = read_rows(check.lines), read_rows(printed_lines, heading)
    problems = []
    for name, cells in page.items():
        for column, cell in cells.items():
            other = printed.get(name, {}).get(column)
            if re.search("held-out|published", column):
                continue
            if other is None:
                problems.append(f"{name}, {column}: not in the output")
            elif not agree(cell, other, check.within):
                problems.append(f"{name}, {column}: the page has {cell}, the output {other}")
    return problems


def _different_lines(check: Check, output: str) -> list[str]:
    printed = [line.split() for line in output.splitlines()]
    return [
        f"no line of the output is within {check.within:g} of: {line.strip()}"
        for line in check.lines
        if re.search(r"\w", line) and not any(agree(line, " ".join(words), check.within) for words in printed)
    ]


def read_rows(lines: tuple[str, ...] | list[str], heading: str = "") -> Rows:
    """The rows of all Markdown tables among these lines, by the cell under this heading, else by their first cell."""
    rows: Rows = {}
    head: list[str] = []
    for line in lines:
        if not line.startswith("|"):
            head = []
            continue
        cells = _cells(line)
        if not head:
            head = cells
        elif set("".join(cells)) - set("-: "):
            named = dict(zip(head, cells, strict=False))
            name = named.pop(heading if heading in named else head[0])
            rows[name] = named
    return rows


def _cells(line: str) -> list[str]:
    return [cell.strip().replace("\\", "").replace("`", "").replace("**", "") for cell in line.strip()[1:-1].split("|")]


def agree(first: str, second: str, within: float) -> bool:
    """Whether two texts are equal but for spaces and numbers, and their numbers within the tolerance."""
    texts = [" ".join(_NUMBER.sub("#", text).split()) for text in (first, second)]
    numbers = [
        [float(each.replace(",", "").replace("−", "-")) for each in _NUMBER.findall(text)] for text in (first, second)
    ]
    return texts[0] == texts[1] and all(abs(a - b) <= within + 1e-9 for a, b in zip(*numbers, strict=True))


def main() -> int:
    """Runs the checks; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, help="the folder of the data")
    parser.add_argument("pages", nargs="*", help="pages, such as lceval.md (default: all)")
    parser.add_argument("--all", action="store_true", help="also what takes more than a minute")
    parser.add_argument("--list", action="store_true", help="list the checks, and exit")
    options = parser.parse_args()
    pages = {Path(page).name for page in options.pages}
    all_checks = list(find_checks())
    if unknown_pages := pages - {each.page for each in all_checks}:
        parser.error(f"no table of {', '.join(sorted(unknown_pages))} names its command")
    checks = [each for each in all_checks if not pages or each.page in pages]
    if options.list:
        for each in checks:
            print(f"docs/{each.page}:{each.line}: {each.minutes:g} min, within {each.within:g}: {each.command}")
        return 0
    if options.folder is None:
        parser.error("name the folder of the data")
    failed = 0
    for each in (check for check in checks if check.cheap or options.all):
        problems = differences(each, run_command(each, options.folder))
        failed += bool(problems)
        print(f"docs/{each.page}:{each.line}: {'differs' if problems else 'as documented'}: {each.command}", flush=True)
        for problem in problems:
            print(f"    {problem}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
