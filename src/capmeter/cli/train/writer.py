"""`capmeter train writer`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from capmeter.cli.main import say
from capmeter.cli.options import Device, Format, Seed
from capmeter.cli.output import show
from capmeter.cli.train.options import Exclusions, Threads, need_torch
from capmeter.progress import shown
from capmeter.report.tables import Table

Corpora = Annotated[
    list[str],
    typer.Argument(
        help="Captions of photos in any format, as SOURCE=FILE (coco or flickr30k). `coco=pycocoevalcap` reads the "
        "captions of COCO 2014 that lie in this installed package.",
        metavar="SOURCE=FILE...",
    ),
]


def writer(
    corpora: Corpora,
    exclusions: Exclusions,
    output: Annotated[Path, typer.Option("--output", "-o", help="Write the writer and its weaker versions here.")],
    steps: int = typer.Option(3000, help="The number of training steps, in hundreds.", min=100),
    batch: int = typer.Option(64, help="Captions per step.", min=1),
    photos: int = typer.Option(0, help="Learn from this many photos, drawn by the seed; 0: from all.", min=0),
    pieces: int = typer.Option(3000, help="The number of subwords.", min=300),
    width: int = typer.Option(128, help="The width of the network, a multiple of 32.", min=32),
    strength: list[int] = typer.Option(
        [300, 1000], "--strength", help="Also keep the weights after so many steps, in hundreds; repeatable."
    ),
    threads: Threads = 1,
    device: Device = None,
    seed: Seed = 0,
    format: Format = "table",
) -> None:
    """Train the caption writer, which reads captions of a photo and writes another, as a machine would.

    Photos of benchmarks are left out; three per cent of the others are held out. An interrupted run is resumed.

    **Example**

    `capmeter train writer coco=pycocoevalcap flickr30k=flickr30k_references.jsonl.gz
    --exclusions training_exclusions.json.gz --output writer/`
    """
    from capmeter.learning.corpus import named_file, read_corpus
    from capmeter.learning.parser.examples import read_exclusions
    from capmeter.learning.writer.recipe import STEPS_PER_EPOCH, WriterRecipe

    if steps % STEPS_PER_EPOCH:
        raise typer.BadParameter(f"{steps} is not a multiple of {STEPS_PER_EPOCH}", param_hint="--steps")
    if width % 32:
        raise typer.BadParameter(f"{width} is not a multiple of 32", param_hint="--width")
    recipe = WriterRecipe(
        epochs=steps // STEPS_PER_EPOCH,
        batch=batch,
        photos=photos,
        pieces=pieces,
        width=width,
        hidden=2 * width,
        heads=width // 32,
        strengths=tuple(strength),
        seed=seed,
    )
    need_torch()
    from capmeter.encoders.encoder import device_name
    from capmeter.learning.writer.run import train_writer
    from capmeter.learning.writer.writer import Writer

    with shown():
        listed = read_exclusions(exclusions)
        found = []
        for given in corpora:
            source, file = named_file(given)
            corpus = read_corpus(source, file, listed)
            say(f"{source}: {len(corpus.photos):,} photos; {corpus.excluded:,} of benchmarks were left out")
            found.append(corpus)
        scores = train_writer(found, recipe, output, device=device_name(device or "cpu"), threads=threads)
        label = Writer(output).label
    row = [label, *(f"{value:.3f}" for value in scores.values())]
    table = Table("held-out captions, per subword", ["writer", *scores], [row], [False, *(True for _ in scores)])
    show(table, {"writer": label, "held_out": dict(scores)}, format)
