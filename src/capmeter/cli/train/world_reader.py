"""`capmeter train world-reader`."""

from __future__ import annotations

from pathlib import Path

import typer

from capmeter.cli.main import say
from capmeter.cli.options import Device, Format, Seed
from capmeter.cli.output import show
from capmeter.cli.train.options import Threads, need_torch
from capmeter.progress import shown
from capmeter.report.tables import Table


def world_reader(
    output: Path = typer.Option(..., "--output", "-o", help="The folder of the checkpoint and the log."),
    encoder: str = typer.Option("world-encoder", "--encoder", help="The encoder to begin with: a name or folder."),
    pictures: int = typer.Option(24_000, help="The number of pictures to train on.", min=1),
    epochs: int = typer.Option(6, help="The number of epochs.", min=1),
    workers: int = typer.Option(1, help="Number of processes that draw pictures.", min=1),
    threads: Threads = 1,
    device: Device = None,
    seed: Seed = 0,
    format: Format = "table",
) -> None:
    """Train the reader that turns a made picture into a table of what is there; everything is drawn.

    Its table is the picture's feature for critics of made scenes: `leic(checkpoint=FOLDER,features=world-reader)`. It
    begins with the world encoder, which learns along. An interrupted run is resumed. The defaults need about half an
    hour of one core, and make the reader that ships.

    **Examples**

    `capmeter train world-reader --output world-reader/`

    `capmeter train world-reader --encoder world-encoder/ --output reader/ --pictures 40000`
    """
    need_torch()
    import torch

    from capmeter.encoders.encoder import device_name
    from capmeter.encoders.world.encoder import load_world_encoder
    from capmeter.learning.world_encoder.examples import draw_examples
    from capmeter.learning.world_reader.training import WorldReaderRecipe, train_world_reader

    torch.set_num_threads(threads)
    recipe = WorldReaderRecipe(epochs=epochs, pictures=pictures, seed=seed)
    seeing = load_world_encoder(encoder, device_name(device or "cpu"))
    with shown():
        train = draw_examples("train", pictures, seed, workers)
        held_out = draw_examples("dev", recipe.held_out, seed, workers)
        outcome = train_world_reader(seeing, train, held_out, recipe, output)
    rows = [[name, value] for name, value in outcome.scores.items()]
    table = Table("held-out pictures", ["share right", "value"], rows, [False, True])
    show(table, {"epoch": outcome.epoch, "held_out": dict(outcome.scores)}, format)
    say(f"world reader: {output}")
