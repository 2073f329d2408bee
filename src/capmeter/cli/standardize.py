"""`capmeter standardize`: the mean and spread of SMURF's components on human captions, for any encoder."""

from __future__ import annotations

from pathlib import Path

import typer

from capmeter.captions.files import check_targets
from capmeter.captions.io import load
from capmeter.cli.output import FORMAT_HELP, show
from capmeter.meta.held_out import held_out
from capmeter.meta.standardize import spread
from capmeter.meta.standardize import standardize as estimate
from capmeter.progress import shown
from capmeter.report.tables import FORMATS, Table

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")


@app.command()
def standardize(
    human: str = typer.Argument(..., help="Human captions, with others of the same images.", metavar="FILE"),
    output: Path = typer.Option(..., "--output", "-o", help="Write the constants here (JSON)."),
    encoder: str = typer.Option("minilm", "--encoder", "-e", help="MIMA's and SPURTS' encoder; two are joined by +."),
    references: str | None = typer.Option(None, "--references", "-r", help="The references, where they lie apart."),
    hold_out: bool = typer.Option(False, "--hold-out", help="Leave each caption out of its own references."),
    system: str | None = typer.Option(None, help="Of several systems in the file, take this one."),
    split: str | None = typer.Option(None, help="Of a file with splits, take the images of this one."),
    source: str | None = typer.Option(None, help="What to write down as the constants' source; else the file's name."),
    format: str = typer.Option("table", "--format", "-f", help=FORMAT_HELP),
) -> None:
    """Estimate what SMURF standardises by, from human captions, and save it.

    Then use it: `capmeter score FILE -m "smurf(encoder=NAME,standard=FILE.json)"`.

    **Examples**

    `capmeter standardize human.jsonl --encoder minilm --output mine.json`

    `capmeter standardize val2014.json -r val2014.json --hold-out -e distilbert+distilroberta -o mine.json`
    """
    if format not in FORMATS:
        raise typer.BadParameter(f"{format!r} is not one of {', '.join(FORMATS)}", param_hint="--format")
    check_targets(output)
    first, plus, second = encoder.partition("+")
    with shown():
        captions = load(human, references, system=system, split=split)
        if hold_out:
            captions = held_out(captions)
        found = estimate(captions, first, second if plus else first, source=source or Path(human).name)
    found.save(output)
    rows = [[name, f"{mean:.6f}", f"{deviation:.6f}"] for name, (mean, deviation) in spread(found).items()]
    title = f"{found.captions:,} human captions; {encoder}; written to {output}"
    table = Table(title, ["component", "mean", "deviation"], rows, [False, True, True])
    data = {name: {"mean": mean, "deviation": deviation} for name, (mean, deviation) in spread(found).items()}
    show(table, {"captions": found.captions, "source": found.source, "encoder": encoder, **data}, format)
