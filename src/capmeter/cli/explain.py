"""`capmeter explain`: why captions got their scores."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from capmeter.captions.columns import chosen_columns
from capmeter.captions.io import load
from capmeter.cli.options import (
    Columns,
    Device,
    ImagesRoot,
    InputFormat,
    Metrics,
    OnMissing,
    Precision,
    References,
    ReferencesFormat,
    Regions,
    System,
    one_of,
    settings_of,
)
from capmeter.cli.output import show, write
from capmeter.meta.by_reference import by_reference
from capmeter.progress import shown
from capmeter.report.by_reference import reference_table
from capmeter.report.explain import as_text, explain, to_dicts

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
FORMATS = ("text", "json")


@app.command("explain")
def explain_command(
    candidates: str = typer.Argument(..., help="A file of captions.", metavar="CANDIDATES"),
    references: References = None,
    metrics: Metrics = "rouge-l,cider-d",
    id: list[str] = typer.Option([], "--id", help="Explain the caption with this id; repeatable."),
    worst: int | None = typer.Option(None, help="Explain the K captions with the lowest scores.", min=1, metavar="K"),
    best: int | None = typer.Option(None, help="Explain the K captions with the highest scores.", min=1, metavar="K"),
    by: str | None = typer.Option(None, help="The metric that decides which are worst or best (default: the first)."),
    references_alone: bool = typer.Option(
        False, "--by-reference", help="Show the score against each reference alone, and their spread, instead."
    ),
    format: Annotated[str, typer.Option("--format", "-f", help="What to print.", **one_of(FORMATS))] = "text",
    system: System = None,
    column: Columns = [],
    on_missing: OnMissing = "error",
    input_format: InputFormat = None,
    references_format: ReferencesFormat = None,
    images_root: ImagesRoot = None,
    device: Device = None,
    precision: Precision = None,
    regions: Regions = "",
) -> None:
    """Show what each metric matched in a caption, and what it did not match.

    **Examples**

    `capmeter explain results.json -r captions_val2014.json -m cider-d,meteor --worst 5 --by cider-d`

    `capmeter explain rows.jsonl -m bleu-4,rouge-l --id 391895 --format json`
    """
    if sum((bool(id), worst is not None, best is not None)) != 1:
        raise typer.BadParameter("choose captions with exactly one of --id, --worst and --best")
    settings = settings_of(device, precision)
    with shown():
        captions = load(
            candidates,
            references,
            format=input_format,
            references_format=references_format,
            on_missing=on_missing,  # type: ignore[arg-type]
            system=system,
            regions=regions,
            images_root=images_root or "",
            columns=chosen_columns(column),
        )
        number = worst if worst is not None else best
        found = explain(captions, metrics, ids=id, worst=number, by=by, best=best is not None, settings=settings)
        alone = []
        if references_alone:
            asked = [each.caption.id for each in found]
            alone = by_reference(captions, metrics, ids=asked, settings=settings)
    if references_alone:
        data = {"by_reference": [vars(each) | {"spread": each.spread} for each in alone]}
        show(reference_table(alone), data, "table" if format == "text" else format)
        return
    if format == "json":
        write(json.dumps(to_dicts(found), indent=2) + "\n")
        return
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else 120, highlight=False).print(as_text(found))
