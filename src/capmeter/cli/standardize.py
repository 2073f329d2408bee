"""`capmeter standardize`: the mean and spread of SMURF's components on human captions, for any encoder."""

from __future__ import annotations

from pathlib import Path

import typer

from capmeter.captions.columns import chosen_columns
from capmeter.captions.files import check_targets
from capmeter.captions.io import load
from capmeter.cli.options import Columns, Device, Encoder, Format, Precision, References, Split, System, settings_of
from capmeter.cli.output import show
from capmeter.meta.held_out import held_out
from capmeter.meta.standardize import spread
from capmeter.meta.standardize import standardize as estimate
from capmeter.progress import shown
from capmeter.report.tables import Table

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")


@app.command()
def standardize(
    human: str = typer.Argument(
        ..., help="Human captions, with other captions of the same images as references.", metavar="FILE"
    ),
    output: Path = typer.Option(..., "--output", "-o", help="Write the constants here (JSON)."),
    encoder: Encoder = "minilm",
    references: References = None,
    hold_out: bool = typer.Option(False, "--hold-out", help="Remove each caption from its own references."),
    system: System = None,
    split: Split = None,
    column: Columns = [],
    source: str | None = typer.Option(None, help="The recorded source of the constants (default: the file's name)."),
    device: Device = None,
    precision: Precision = None,
    format: Format = "table",
) -> None:
    """Estimate SMURF's normalisation constants from human captions, and save them.

    Then use it: `capmeter score FILE -m "smurf(encoder=NAME,standard=FILE.json)"`.

    **Examples**

    `capmeter standardize human.jsonl --encoder minilm --output mine.json`

    `capmeter standardize val2014.json -r val2014.json --hold-out -e distilbert+distilroberta -o mine.json`
    """
    check_targets(output)
    first, plus, second = encoder.partition("+")
    with shown():
        captions = load(human, references, system=system, split=split, columns=chosen_columns(column))
        if hold_out:
            captions = held_out(captions)
        found = estimate(
            captions,
            first,
            second if plus else first,
            source=source or Path(human).name,
            settings=settings_of(device, precision),
        )
    found.save(output)
    rows = [[name, f"{mean:.6f}", f"{deviation:.6f}"] for name, (mean, deviation) in spread(found).items()]
    title = f"{found.captions:,} human captions; {encoder}; written to {output}"
    table = Table(title, ["component", "mean", "deviation"], rows, [False, True, True])
    data = {name: {"mean": mean, "deviation": deviation} for name, (mean, deviation) in spread(found).items()}
    show(table, {"captions": found.captions, "source": found.source, "encoder": encoder, **data}, format)
