"""`capmeter train world-encoder`."""

from __future__ import annotations

from pathlib import Path

import typer

from capmeter.cli.main import say
from capmeter.cli.options import Device, Format, Seed
from capmeter.cli.output import show
from capmeter.cli.train.options import Threads, need_torch
from capmeter.progress import shown
from capmeter.report.tables import Table


def world_encoder(
    output: Path = typer.Option(..., "--output", "-o", help="The folder of the checkpoint and the log."),
    pictures: int = typer.Option(10_000, help="The number of pictures to train on.", min=1),
    epochs: int = typer.Option(12, help="The number of epochs.", min=1),
    workers: int = typer.Option(1, help="Number of processes that draw pictures.", min=1),
    threads: Threads = 1,
    device: Device = None,
    seed: Seed = 0,
    format: Format = "table",
) -> None:
    """Train the encoder of pictures and regions of the made world; everything is drawn, no file is needed.

    An interrupted run is resumed. The defaults need about twenty minutes of one core, and make the encoder that ships.

    **Examples**

    `capmeter train world-encoder --output world-encoder/`

    `capmeter train world-encoder --output large/ --pictures 40000 --epochs 16 --device cuda --workers 8`
    """
    need_torch()
    import torch

    from capmeter.encoders.encoder import device_name
    from capmeter.learning.world_encoder.examples import draw_examples
    from capmeter.learning.world_encoder.training import WorldEncoderRecipe, train_world_encoder
    from capmeter.settings import Settings

    torch.set_num_threads(threads)
    recipe = WorldEncoderRecipe(epochs=epochs, pictures=pictures, seed=seed)
    chosen = device_name(device or Settings().device)
    with shown():
        train = draw_examples("train", pictures, seed, workers)
        held_out = draw_examples("dev", recipe.held_out, seed, workers)
        outcome = train_world_encoder(train, held_out, recipe, output, device=chosen)
    rows = [[name, value] for name, value in outcome.scores.items()]
    table = Table("held-out pictures", ["share right", "value"], rows, [False, True])
    show(table, {"epoch": outcome.epoch, "held_out": dict(outcome.scores)}, format)
    say(f"world encoder: {output}")
