"""`capmeter calibrate`: an encoder's baseline similarities, estimated from captions alone."""

from __future__ import annotations

import typer

from capmeter.captions.columns import chosen_columns
from capmeter.captions.io import load_references
from capmeter.cli.options import Columns, Device, Encoder, Format, Seed, Split, settings_of
from capmeter.cli.output import show
from capmeter.metrics.calibration import calibrate as measure
from capmeter.metrics.calibration import shipped
from capmeter.progress import shown
from capmeter.report.tables import Table

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")


@app.command()
def calibrate(
    captions: str = typer.Argument(..., help="Captions of at least two images, in any format.", metavar="FILE"),
    encoder: Encoder = "minilm",
    layer: int | None = typer.Option(None, help="The layer (default: the last)."),
    pairs: int = typer.Option(10000, help="How many pairs of captions of different images.", min=1),
    seed: Seed = 0,
    split: Split = None,
    column: Columns = [],
    device: Device = None,
    format: Format = "table",
) -> None:
    """Find TBR's threshold β and BERTScore's baseline for an encoder, without human judgments.

    Both are the mean greedy match between captions of different images: the similarity of unrelated captions.

    **Examples**

    `capmeter calibrate captions_train2014.json --encoder minilm`

    `capmeter calibrate dataset_flickr8k.json --split train --encoder roberta --layer 17 --pairs 2000`
    """
    with shown():
        found = load_references(captions, split=split, columns=chosen_columns(column))
        spoken = [(image, sentence) for image, sentences in found.items() for sentence in sentences]
        result = measure(spoken, encoder, layer, pairs=pairs, seed=seed, settings=settings_of(device))
    values = {
        "beta": result.beta,
        "precision": result.baseline[0],
        "recall": result.baseline[1],
        "f1": result.baseline[2],
    }
    what = ("tbr: beta", "bertscore: baseline P", "bertscore: baseline R", "bertscore: baseline F1")
    ships = shipped(encoder, result.layer)
    rows = [
        [name, f"{value:.4f}", "" if ship is None else f"{ship:g}"]
        for name, value, ship in zip(what, values.values(), ships, strict=True)
    ]
    title = f"{encoder}, layer {result.layer}: {result.pairs:,} pairs, standard error of beta {result.error:.4f}"
    data = {"encoder": encoder, "layer": result.layer, "pairs": result.pairs, "seed": seed, "error": result.error}
    show(Table(title, ["value", "measured", "ships"], rows, [False, True, True]), {**data, **values}, format)
