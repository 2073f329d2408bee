"""`capmeter convert`: captions from one format to another."""

from __future__ import annotations

from typing import cast

import typer

from capmeter.captions.columns import chosen_columns
from capmeter.captions.rows import Side
from capmeter.captions.writing import TARGETS
from capmeter.captions.writing import convert as convert_captions
from capmeter.cli.main import say
from capmeter.cli.options import Columns, InputFormat, Reading, References, ReferencesFormat, Split, System
from capmeter.cli.output import write
from capmeter.printable import printable

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")


@app.command()
def convert(
    source: str = typer.Argument(..., help="The captions to convert, in any format.", metavar="IN"),
    target: str = typer.Argument(..., help="The file to write; a name that ends in .gz is gzipped.", metavar="OUT"),
    to: str = typer.Option(..., "--to", "-t", help=f"The format to write: {', '.join(TARGETS)}."),
    references: References = None,
    references_out: str | None = typer.Option(
        None,
        help="Where to write the references, if the format keeps them separate (coco, pycocoevalcap, clipscore).",
    ),
    system: System = None,
    split: Split = None,
    side: Reading = None,
    column: Columns = [],
    input_format: InputFormat = None,
    references_format: ReferencesFormat = None,
) -> None:
    """Convert captions from one format to another, reporting what the new format cannot hold.

    **Examples**

    `capmeter convert results.json rows.jsonl --to jsonl --references captions_val2014.json`

    `capmeter convert dataset_coco.json test.json --to coco --split test`

    `capmeter convert rows.parquet results.json --to coco --references-out captions.json --system blip2`
    """
    if to not in TARGETS:
        raise typer.BadParameter(f"{to!r} is not one of {', '.join(TARGETS)}", param_hint="--to")
    if side not in (None, "candidates", "references"):
        raise typer.BadParameter(f"{side!r} is not candidates or references", param_hint="--side")
    written = convert_captions(
        source,
        target,
        to=to,
        references=references,
        references_path=references_out,
        format=input_format,
        references_format=references_format,
        system=system,
        split=split,
        side=cast("Side | None", side),
        columns=chosen_columns(column),
    )
    say(f"note: read {source} as {written.source_format} ({written.side})")
    for path, (what, count) in written.files.items():
        write(f"{printable(str(path))}: {count:,} {what}\n")
    for field, count in written.dropped.items():
        say(f"note: {to} cannot hold {field}: dropped from {count:,} rows")
    if written.ignored:
        say(f"note: fields that capmeter does not know were dropped: {', '.join(written.ignored)}")
