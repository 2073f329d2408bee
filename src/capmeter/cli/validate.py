"""`capmeter validate`: can this file of captions be scored?"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, cast

import typer

from capmeter.captions.load_options import LoadOptions
from capmeter.captions.rows import Side
from capmeter.captions.validation import Findings, examine
from capmeter.cli.command import Application
from capmeter.cli.options import side_option
from capmeter.cli.output import write, write_lines
from capmeter.core.messages import escape_controls
from capmeter.core.options import argument, option, option_group
from capmeter.report.score_table import name_items

app = Application()


@dataclass(frozen=True, kw_only=True)
class _ValidateOptions:
    """The captions, and what is printed."""

    captions: str = argument(help="A file of candidates, of references, or of rows with both.", metavar="FILE")
    format: str = option("table", "What to print: table or json.", "--format", "-f", choices=("table", "json"))
    side: str | None = side_option()
    load: LoadOptions = option_group(LoadOptions, without=("on_missing", "on_absent", "images_root", "regions"))


@app.command()
def validate(options: _ValidateOptions) -> None:
    """Check captions before they are scored: what the file holds, and what may be wrong with it.

    The exit code is 1 if the captions cannot be scored as they are; it is 0 with warnings only.

    **Examples**

    `capmeter validate results.json --references captions_val2014.json`

    `capmeter validate dataset_coco.json --split test`
    """
    findings = examine(options.captions, side=cast("Side | None", options.side), options=options.load)
    if options.format == "json":
        content = {field_name: getattr(findings, field_name) for field_name in ("ok", "facts", "problems", "warnings")}
        write(json.dumps(content, indent=2) + "\n")
    else:
        write_lines(_describe_findings(options.captions, findings))
    if not findings.ok:
        raise typer.Exit(1)


def _describe_findings(file_name: str, findings: Findings) -> list[str]:
    verdict = "good" if findings.ok else "bad"
    if findings.ok and findings.warnings:
        verdict = "good, with warnings"
    noun = name_items((), str(findings.facts.get("images by", "")))
    facts = {re.sub("^images", f"{noun}s", fact): value for fact, value in findings.facts.items()}
    width = max(map(len, facts), default=0)
    lines = [f"{file_name}: {verdict}"]
    lines += [f"  {fact:<{width}}  {_value_text(value)}" for fact, value in facts.items()]
    lines += [f"  problem: {re.sub('^images', f'{noun}s', problem)}" for problem in findings.problems]
    lines += [f"  warning: {re.sub('^images', f'{noun}s', warning)}" for warning in findings.warnings]
    return [escape_controls(line) for line in lines]


def _value_text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key or '(none)'} {_value_text(each)}" for key, each in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)
