"""`capmeter study paper`: the tables of a paper, ours beside the published ones, on one page.

Each paper's folder has `tables.json`: for each table its title, the command that prints it, the file that it reads, and
why the numbers differ. The commands run one after the other in the folder of the data.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from capmeter.cli.main import echo
from capmeter.core import progress
from capmeter.core.errors import InputError
from capmeter.core.options import argument, option
from capmeter.core.output_files import check_targets, write_atomic
from capmeter.evaluation.registry import METRICS, parse_list
from capmeter.meta.published import published

PAPERS = ("tbr", "smurf", "umic", "lceval", "wembsim", "leic")
"""The papers with tables, by the names of their folders."""


@dataclass(frozen=True, kw_only=True)
class PaperOptions:
    """The paper, the data, and the page."""

    paper: str = argument(help=f"One of {', '.join(PAPERS)}.", metavar="PAPER")
    data: Path = option(..., "Folder of the benchmarks' files.")
    output: Path = option(..., "Write the page to this folder, as PAPER.md.", "--output", "-o")
    quick: bool = option(False, "Only the tables that take seconds.")


def write_paper(options: PaperOptions) -> None:
    """Writes the page of a paper.

    Args:
        options: the paper, the data, and the page's folder.

    Raises:
        InputError: the paper is unknown, or none of its files is in the folder of the data.
    """
    if options.paper not in PAPERS:
        raise InputError(f"unknown paper {options.paper!r}; expected one of {', '.join(PAPERS)}")
    paper = json.loads(files(f"capmeter_research.papers.{options.paper}").joinpath("tables.json").read_text("utf-8"))
    tables = [table for table in paper["tables"] if table.get("quick") or not options.quick]
    found = {table["data"]: find_data(options.data, table["data"]) for table in tables}
    if not any(found.values()):
        raise InputError(
            f"{options.data}: has none of {', '.join(found)}; docs/benchmarks.md says where they come from"
        )
    options.output.mkdir(parents=True, exist_ok=True)
    page = options.output / f"{options.paper}.md"
    check_targets(page)
    sections = [f"# {paper['paper']}"]
    with progress.task(f"tables of {options.paper}", total=len(tables)) as advance:
        for table in tables:
            sections.append(make_section(table, found[table["data"]]))
            echo(f"{table['title']}: {'done' if found[table['data']] else 'its file is not here'}")
            advance(1)
    write_atomic(page, "\n\n".join(sections) + "\n")
    echo(f"wrote {page}")


def find_data(folder: Path, name: str) -> Path | None:
    """A file of the folder or of its folder `samples`; None if there is none."""
    return next((path for path in (folder / name, folder / "samples" / name) if path.is_file()), None)


def make_section(table: Mapping[str, Any], data: Path | None) -> str:
    """A table's section: its command, what that prints, and why the numbers differ from the published ones.

    Args:
        table: an entry of `tables.json`.
        data: the file that it reads; None if it is not here.
    """
    if data is None:
        return f"## {table['title']}\n\nNot made: it needs {table['data']}."
    arguments = [str(data) if each == table["data"] else each for each in shlex.split(table["command"])]
    if arguments[0] == "meta":
        arguments += ["-d", str(data)]
    elif arguments[-1] == "--data":
        arguments.append(str(data))
    command = [sys.executable, "-m", "capmeter", *arguments, "--format", "markdown"]
    done = subprocess.run(command, capture_output=True, text=True)
    printed = done.stdout.strip() if done.returncode == 0 else f"Failed: {done.stderr.strip()[-500:]}"
    if "--sample" in arguments and arguments[0] == "meta":  # whose table has no published values
        printed += list_published(arguments)
    shown = shlex.join("DATA/" + Path(each).name if each == str(data) else each for each in arguments)
    return f"## {table['title']}\n\n`capmeter {shown}`\n\n{printed}\n\n**Why they differ**: {table['why']}."


def list_published(arguments: Sequence[str]) -> str:
    """The published values of the metrics of a `capmeter meta` command, as a table; empty without any.

    Args:
        arguments: of the command, with -b and -p, and maybe -m.
    """
    benchmark, protocol, *named = (
        arguments[arguments.index(each) + 1] for each in ("-b", "-p", "-m") if each in arguments
    )
    metrics = (
        parse_list(named[0]) if named else [METRICS.parse(each) for each in ("bleu-1", "meteor", "cider-d", "spice")]
    )
    values = [(metric, published(benchmark, protocol, str(metric))) for metric in metrics]
    rows = [
        f"| {metric} | {each.value:g} | {', '.join(f'{name} {value:g}' for name, value in each.groups.items())} | "
        f"{each.made_with} | {each.source} |"
        for metric, each in values
        if each is not None
    ]
    heading = "| metric | published | categories | made with | source |\n| --- | ---: | --- | --- | --- |\n"
    return f"\n\n{heading}" + "\n".join(rows) if rows else ""
