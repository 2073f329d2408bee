"""`capmeter world`: the made world as files."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import typer

from capmeter.cli.options import Seed, one_of
from capmeter.cli.output import write
from capmeter.printable import printable
from capmeter.progress import shown

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")


@app.command()
def world(
    folder: Path = typer.Argument(..., help="The folder to write.", metavar="FOLDER"),
    split: str = typer.Option("test", help="Splits share no scene.", **one_of(("train", "dev", "test"))),
    size: int = typer.Option(1000, help="The number of pictures.", min=1),
    pixels: int = typer.Option(96, help="Width and height of the pictures.", min=32, max=2048),
    encoder: str | None = typer.Option(
        None, help="Adds features of pictures and regions: a checkpoint of `capmeter train world-encoder`."
    ),
    seed: Seed = 0,
) -> None:
    """Draw pictures that are fully known, with true captions, controlled errors, regions and facts.

    Every candidate comes with five references, and with the share of its facts that hold as its human score.

    **Examples**

    `capmeter world made/ --split test --size 500`

    `capmeter score made/captions.jsonl --metrics cider-d,meteor`
    """
    from capmeter.encoders.world.encoder import load_world_encoder
    from capmeter.learning.world.folder import write_world
    from capmeter.learning.world.world import Split, World

    made = World(split=cast(Split, split), size=size, seed=seed, pixels=pixels)
    with shown():
        written = write_world(made, folder, encoder=load_world_encoder(encoder) if encoder else None)
    for what, count in written.items():
        write(f"{printable(str(folder))}: {count:,} {what} of {made}\n")
