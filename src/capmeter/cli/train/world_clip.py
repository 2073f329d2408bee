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


def world_clip(
    output: Path = typer.Option(..., "--output", "-o", help="The folder of the model and the log."),
    pictures: int = typer.Option(100_000, help="The number of pictures to train on.", min=2),
    epochs: int = typer.Option(50, help="The number of epochs.", min=1),
    batch: int = typer.Option(512, help="Pictures per step.", min=2),
    wrong: int = typer.Option(4, help="Wrong captions beside each true one.", min=0, max=8),
    known: float = typer.Option(0.5, help="Weight of what is known of every patch; 0: captions alone teach.", min=0.0),
    rate: float = typer.Option(1e-3, help="The highest learning rate.", min=1e-6),
    width: int = typer.Option(192, help="The network's width.", min=32),
    vision_layers: int = typer.Option(7, help="Layers of the network of pictures.", min=1),
    text_layers: int = typer.Option(3, help="Layers of the network of sentences.", min=1),
    patch: int = typer.Option(8, help="Side of the patches that pictures are cut into.", min=4),
    precision: TrainingPrecision = "float32",
    workers: int = typer.Option(1, help="Number of processes that draw pictures.", min=1),
    threads: Threads = 1,
    evaluate: int = typer.Option(1000, help="Held-out pictures to evaluate CLIPScore on afterwards; 0: none.", min=0),
    device: Device = None,
    seed: Seed = 0,
    format: Format = "table",
) -> None:
    """Train a small CLIP from scratch on the made world, for `clipscore(encoder=FOLDER)`; everything is drawn.

    An interrupted run is resumed.

    **Examples**

    `capmeter train world-clip --output world-clip/ --device cuda --precision bfloat16 --workers 8`

    `capmeter train world-clip --output small/ --pictures 20000 --epochs 8 --batch 128 --patch 12 --threads 2`
    """
    need_torch()
    import torch

    from capmeter.learning.world.world import World
    from capmeter.learning.world_clip.evaluation import shares_right
    from capmeter.learning.world_clip.examples import draw_examples
    from capmeter.learning.world_clip.recipe import WorldClipRecipe
    from capmeter.learning.world_clip.run import train_world_clip
    from capmeter.settings import Settings

    torch.set_num_threads(threads)
    chosen = device or Settings().device
    if chosen == "auto":
        chosen = "cuda" if torch.cuda.is_available() else "cpu"
    recipe = WorldClipRecipe(
        epochs=epochs,
        pictures=pictures,
        batch=batch,
        wrong=wrong,
        known=known,
        rate=rate,
        width=width,
        vision_layers=vision_layers,
        text_layers=text_layers,
        patch=patch,
        precision=precision,
        seed=seed,
    )
    with shown():
        train = draw_examples("train", pictures, recipe.captions, patch, seed, workers)
        held_out = draw_examples("dev", recipe.held_out, 1, patch, seed, workers)
        outcome = train_world_clip(train, held_out, recipe, output, device=chosen)
        scores = {"dev": dict(outcome.scores)}
        if evaluate:
            scores["test"] = shares_right(str(output), World(split="test", size=evaluate, seed=seed))
    columns = ["share of pictures", *scores]
    names = dict.fromkeys(name for each in scores.values() for name in each)
    rows = [[name, *(f"{each[name]:.3f}" if name in each else "" for each in scores.values())] for name in names]
    table = Table("held-out pictures", columns, rows, [False] + [True] * len(scores))
    show(table, {"epoch": outcome.epoch, **scores}, format)
    say(f"the made world's CLIP: {output}")
