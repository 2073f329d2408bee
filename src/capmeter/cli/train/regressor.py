"""`capmeter train regressor`."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from pathlib import Path

import typer

from capmeter.cli.main import say
from capmeter.cli.options import Device, Format, ImagesRoot, Seed, one_of, settings_of
from capmeter.cli.output import show
from capmeter.cli.train.options import Threads, need_torch
from capmeter.progress import shown
from capmeter.report.tables import Table


def regressor(
    rows: Path | None = typer.Argument(
        None, help="Captions with human scores, references and pictures.", metavar="FILE"
    ),
    output: Path = typer.Option(..., "--output", "-o", help="The folder of the checkpoint and the log."),
    encoder: str = typer.Option("clip", "--encoder", "-e", help="The joint encoder: an alias, a hub id or a folder."),
    text_encoder: str = typer.Option("", help="A text encoder whose sentence vectors are read too, such as minilm."),
    shape: str = typer.Option(
        "polos",
        help="polos (with references), pair (without), or infometic (without; also judges words and regions).",
        **one_of(("polos", "pair", "infometic")),
    ),
    world: int = typer.Option(0, help="Instead of FILE: train on so many scenes of the made world.", min=0),
    tune: float = typer.Option(
        0.0, help="Tune the joint encoder too, at this share of the head's learning rate, such as 0.1.", min=0, max=1
    ),
    images_root: ImagesRoot = None,
    epochs: int | None = typer.Option(None, help="The number of epochs (default: 60; of infometic 20).", min=1),
    threads: Threads = 1,
    device: Device = None,
    seed: Seed = 0,
    format: Format = "table",
) -> None:
    """Train a head on a joint encoder that predicts human scores, for `regressor(checkpoint=FOLDER)`.

    One image in ten is held out and selects the epoch. With --tune the joint encoder learns too, and the checkpoint
    holds it. The shape `infometic` also learns which words are wrong, where that is known: of the made world. What is
    trained on a benchmark's judgments must not be judged by this benchmark. An interrupted run is resumed.

    **Examples**

    `capmeter train regressor ratings.jsonl --images-root photos/ --encoder clip --text-encoder minilm -o head/`

    `capmeter train regressor --world 1000 --encoder world-clip/ --output head/`

    `capmeter train regressor --world 1000 --encoder world-clip/ --tune 0.1 --output head/`

    `capmeter train regressor --world 1000 --encoder world-clip/ --shape infometic --output head/`
    """
    need_torch()
    import torch

    from capmeter.captions.io import load
    from capmeter.checkpoints import TrainingData
    from capmeter.encoders.encoder import device_name
    from capmeter.learning.infometic.labels import Labels, labels_of_world
    from capmeter.learning.regressor.recipe import InfoMetICRecipe, RegressorRecipe
    from capmeter.learning.regressor.run import train_regressor
    from capmeter.learning.world.world import World
    from capmeter.metrics.regressor.inputs import Inputs

    if (rows is None) == (world == 0):
        raise typer.BadParameter("expected either a file of captions, or --world with a number of scenes")
    torch.set_num_threads(threads)
    settings = settings_of(device)
    chosen = device_name(settings.device)
    inputs = Inputs(shape, encoder, text_encoder=text_encoder)  # type: ignore[arg-type]
    kind = InfoMetICRecipe if shape == "infometic" else RegressorRecipe
    recipe = kind(seed=seed, tune=tune) if epochs is None else kind(seed=seed, tune=tune, epochs=epochs)
    labels: Mapping[str, Labels] = {}
    with shown(), tempfile.TemporaryDirectory() as drawn:
        if rows is None:
            made = World(split="train", size=world, seed=seed)
            for scene in made:
                scene.render().save(Path(drawn) / f"{scene.id}.png")
            captions = made.captions(drawn)
            labels = labels_of_world(made) if shape == "infometic" else {}
            data = TrainingData(str(made), hashlib.sha256(str(made).encode()).hexdigest(), len(captions))
        else:
            keep = "error" if shape == "polos" else "keep"
            captions = load(rows, images_root=images_root or "", on_missing=keep)  # type: ignore[arg-type]
            data = TrainingData(rows.name, hashlib.sha256(rows.read_bytes()).hexdigest(), len(captions))
        outcome = train_regressor(
            captions, inputs, recipe, output, labels=labels, data=(data,), device=chosen, settings=settings
        )
    table = Table(
        "held-out images", ["score", "value"], [[k, f"{v:.4f}"] for k, v in outcome.scores.items()], [False, True]
    )
    show(table, {"epoch": outcome.epoch, "held_out": dict(outcome.scores)}, format)
    say(f"regressor: {output}")
