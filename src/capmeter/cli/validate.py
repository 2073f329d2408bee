"""`capmeter validate`: can this file of captions be scored?"""

from __future__ import annotations

import json
from typing import Any, cast

import typer

from capmeter.captions.columns import chosen_columns
from capmeter.captions.rows import Side
from capmeter.captions.validation import Findings, examine
from capmeter.cli.options import Columns, InputFormat, Reading, References, ReferencesFormat, Split, System
from capmeter.cli.output import write
from capmeter.printable import printable

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")


@app.command()
def validate(
    captions: str = typer.Argument(
        ..., help="A file of candidates, of references, or of rows with both.", metavar="FILE"
    ),
    references: References = None,
    format: str = typer.Option("table", "--format", "-f", help="What to print: table or json."),
    system: System = None,
    split: Split = None,
    side: Reading = None,
    column: Columns = [],
    input_format: InputFormat = None,
    references_format: ReferencesFormat = None,
) -> None:
    """Check captions before they are scored: what the file holds, and what may be wrong with it.

    The exit code is 1 if the captions cannot be scored as they are; it is 0 with warnings only.

    **Examples**

    `capmeter validate results.json --references captions_val2014.json`

    `capmeter validate dataset_coco.json --split test`
    """
    if format not in ("table", "json"):
        raise typer.BadParameter(f"{format!r} is not table or json", param_hint="--format")
    if side not in (None, "candidates", "references"):
        raise typer.BadParameter(f"{side!r} is not candidates or references", param_hint="--side")
    findings = examine(
        captions,
        references,
        format=input_format,
        references_format=references_format,
        system=system,
        split=split,
        side=cast("Side | None", side),
        columns=chosen_columns(column),
    )
    write(_as_json(findings) if format == "json" else _as_text(captions, findings))
    if not findings.ok:
        raise typer.Exit(1)


def _as_json(findings: Findings) -> str:
    content = {
        "ok": findings.ok,
        "facts": findings.facts,
        "problems": findings.problems,
        "warnings": findings.warnings,
    }
    return json.dumps(content, indent=2) + "\n"


def _as_text(name: str, findings: Findings) -> str:
    verdict = "good" if findings.ok else "bad"
    if findings.ok and findings.warnings:
        verdict = "good, with warnings"
    width = max(map(len, findings.facts), default=0)
    lines = [f"{name}: {verdict}"]
    lines += [f"  {fact:<{width}}  {_shown(value)}" for fact, value in findings.facts.items()]
    lines += [f"  problem: {problem}" for problem in findings.problems]
    lines += [f"  warning: {warning}" for warning in findings.warnings]
    return "".join(printable(line) + "\n" for line in lines)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key or '(none)'} {_shown(each)}" for key, each in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)
