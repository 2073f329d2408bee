"""`capmeter train world-clip`."""

from __future__ import annotations

from pathlib import Path

import typer

from capmeter.cli.main import say
from capmeter.cli.options import Device, Format, Seed
from capmeter.cli.output import show
from capmeter.cli.train.options import Threads, TrainingPrecision, need_torch
from capmeter.progress import shown
from capmeter.report.tables import Table

ENCODER = "encoder"
"""The folder of the world encoder that is trained first."""


def world_clip(
    output: Path = typer.Option(..., "--output", "-o", help="The folder of the model and the log."),
    encoder: str | None = typer.Option(
        None, help="The world encoder of pictures: a name or folder. Without one, it is trained first."
    ),
    pictures: int = typer.Option(20_000, help="The number of pictures to train on.", min=2),
    epochs: int = typer.Option(8, help="The number of epochs.", min=1),
    batch: int = typer.Option(64, help="Pictures per step.", min=2),
    wrong: int = typer.Option(4, help="Wrong captions beside each true one.", min=0, max=8),
    rate: float = typer.Option(2e-3, help="The highest learning rate.", min=1e-6),
    width: int = typer.Option(128, help="Width of the network of sentences.", min=32),
    layers: int = typer.Option(3, help="Layers in which words read those around them.", min=1),
    slot: int = typer.Option(32, help="Width of the features' slots, one for each kind of thing.", min=4),
    encoder_pictures: int = typer.Option(10_000, help="Pictures that the world encoder is trained on.", min=2),
    encoder_epochs: int = typer.Option(8, help="Epochs of the world encoder.", min=1),
    precision: TrainingPrecision = "float32",
    workers: int = typer.Option(1, help="Number of processes that draw pictures.", min=1),
    threads: Threads = 1,
    evaluate: int = typer.Option(1000, help="Held-out pictures to evaluate CLIPScore on afterwards; 0: none.", min=0),
    device: Device = None,
    seed: Seed = 0,
    format: Format = "table",
) -> None:
    """Train a small CLIP from scratch on the made world, for `clipscore(encoder=FOLDER)`; everything is drawn.

    First its network of pictures learns what is in them, as in `capmeter train world-encoder`; then sentences learn to
    lie beside their pictures. An interrupted run is resumed.

    **Examples**

    `capmeter train world-clip --output world-clip/ --workers 2 --threads 2`

    `capmeter train world-clip --output world-clip/ --encoder world-encoder/ --epochs 10`
    """
    need_torch()
    import torch

    from capmeter.encoders.encoder import device_name
    from capmeter.encoders.world.encoder import load_world_encoder
    from capmeter.learning.world.world import World
    from capmeter.learning.world_clip.evaluation import shares_right
    from capmeter.learning.world_clip.examples import draw_examples
    from capmeter.learning.world_clip.recipe import WorldClipRecipe
    from capmeter.learning.world_clip.run import train_world_clip
    from capmeter.learning.world_encoder.examples import draw_examples as drawn_pictures
    from capmeter.learning.world_encoder.training import WorldEncoderRecipe, train_world_encoder
    from capmeter.settings import Settings

    torch.set_num_threads(threads)
    chosen = device_name(device or Settings().device)
    recipe = WorldClipRecipe(
        epochs=epochs,
        pictures=pictures,
        batch=batch,
        wrong=wrong,
        rate=rate,
        width=width,
        layers=layers,
        slot=slot,
        precision=precision,
        seed=seed,
    )
    with shown():
        if encoder is None:
            first = WorldEncoderRecipe(pictures=encoder_pictures, epochs=encoder_epochs, seed=seed)
            known, checked = (
                drawn_pictures("train", first.pictures, seed, workers),
                drawn_pictures("dev", first.held_out, seed, workers),
            )
            train_world_encoder(known, checked, first, output / ENCODER, device=chosen)
        seeing = load_world_encoder(encoder or str(output / ENCODER), chosen)
        train = draw_examples("train", pictures, recipe.captions, seed, workers)
        held_out = draw_examples("dev", recipe.held_out, 1, seed, workers)
        outcome = train_world_clip(train, held_out, recipe, seeing, output, device=chosen)
        scores = {"dev": dict(outcome.scores)}
        if evaluate:
            scores["test"] = shares_right(str(output), World(split="test", size=evaluate, seed=seed))
    columns = ["share of pictures", *scores]
    names = dict.fromkeys(name for each in scores.values() for name in each)
    rows = [[name, *(f"{each[name]:.3f}" if name in each else "" for each in scores.values())] for name in names]
    table = Table("held-out pictures", columns, rows, [False] + [True] * len(scores))
    show(table, {"epoch": outcome.epoch, **scores}, format)
    say(f"the made world's CLIP: {output}")
