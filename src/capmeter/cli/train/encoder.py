"""`capmeter train encoder`: adapts a sentence encoder to captions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from capmeter.cli.main import say
from capmeter.cli.options import Device, Format, Seed, settings_of
from capmeter.cli.output import show
from capmeter.cli.train.options import Epochs, Exclusions, Steps, Threads, need_torch
from capmeter.progress import shown
from capmeter.report.tables import Table


def encoder(
    captions: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE=FILE...",
            help="Captions of photos, with their source; coco=pycocoevalcap takes those that lie in that package.",
        ),
    ],
    exclusions: Exclusions,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Write the adaptation, its checkpoint and its log to this folder.")
    ],
    encoder: Annotated[str, typer.Option("--encoder", help="Alias, hub id or folder of the encoder.")] = "minilm",
    photos: Annotated[int, typer.Option("--photos", help="Train on so many photos.", min=2)] = 16000,
    held_out: Annotated[int, typer.Option("--held-out", help="Evaluate on so many others.", min=2)] = 200,
    epochs: Epochs = None,
    steps: Steps = None,
    threads: Threads = 1,
    seed: Seed = 0,
    device: Device = None,
    format: Format = "table",
) -> None:
    """Adapt a sentence encoder to captions: those of like photos become alike. No human judgment is used.

    The folder, or its name in the folder of weights, is an encoder from then on. An interrupted run is resumed by the
    same command.

    `capmeter train encoder coco=pycocoevalcap flickr30k=flickr30k_references.jsonl.gz --exclusions
    training_exclusions.json.gz --output minilm-captions/`

    `capmeter score results.json -r references.json -m "sbert(encoder=minilm-captions,pooling=centroid)"`
    """
    need_torch()
    import torch

    from capmeter.encoders.encoder import device_name
    from capmeter.learning.capmeter.examples import drawn
    from capmeter.learning.corpus import named_file, read_corpus
    from capmeter.learning.encoder.recipe import EncoderRecipe
    from capmeter.learning.encoder.run import train_encoder
    from capmeter.learning.parser.examples import read_exclusions

    torch.set_num_threads(threads)
    recipe = EncoderRecipe(seed=seed)
    recipe = replace(recipe, epochs=epochs or recipe.epochs, steps=steps or recipe.steps)
    with shown():
        listed = read_exclusions(exclusions)
        corpora = [read_corpus(*named_file(each), listed) for each in captions]
        chosen, kept = drawn(corpora, photos, held_out, seed)
        say(f"{len(chosen):,} photos to train on, {len(kept):,} held out")
        made = train_encoder(
            chosen,
            kept,
            recipe,
            output,
            data=[corpus.data for corpus in corpora],
            encoder=encoder,
            device=device_name(settings_of(device, None).device),
        )
    rows = [[name, f"{value:.1f}"] for name, value in made.scores.items()]
    table = Table("held-out photos, %", ["nearest references", "captions"], rows, [False, True])
    show(table, {"scores": dict(made.scores), "checkpoint": str(output)}, format)
    say(f"encoder: {output}")
