"""`capmeter train leic`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from capmeter.cli.main import say
from capmeter.cli.options import Format
from capmeter.cli.output import show
from capmeter.cli.train.critic import Images, critic_options
from capmeter.cli.train.options import Runs
from capmeter.errors import InputError
from capmeter.images.picture_vectors import VectorFile
from capmeter.learning.leic.recipe import CriticRecipe
from capmeter.progress import shown
from capmeter.report.tables import Table


@critic_options(optional=("machine",), context="reference")
def leic(
    recipe: CriticRecipe,
    images: Images,
    output: Annotated[Path, typer.Option("--output", "-o", help="Write the checkpoint and the log to this folder.")],
    vectors: Annotated[
        str | None,
        typer.Option("--vectors", help="Word vectors to start from (GloVe, word2vec, fastText); none: seeded."),
    ] = None,
    features: VectorFile | None = None,
    runs: Runs = 1,
    format: Format = "table",
    device: str = "",
) -> None:
    """Train the critic of LEIC to tell captions that people wrote of an image from others.

    Three per cent of the photos are held out, chosen by their number. An interrupted run is resumed. With several runs
    each seed has a folder of its own in `--output`.

    **Examples**

    `capmeter train leic coco=pycocoevalcap --exclusions training_exclusions.json.gz --machine machine.jsonl.gz
    --samples samples.jsonl.gz -o leic/`

    `capmeter train leic flickr30k=flickr30k_references.jsonl.gz --exclusions training_exclusions.json.gz
    --preset flickr8k -o leic-flickr/`
    """
    from capmeter.learning.leic.run import train_critic
    from capmeter.learning.loop import repeated
    from capmeter.settings import Settings

    if recipe.sees_image and features is None:
        raise InputError(f"context={recipe.context} needs --features, or choose --context reference")
    with shown():
        found = images()
        start = None
        if vectors is not None:
            from capmeter.metrics.word_vectors import find_vectors

            start = find_vectors(vectors, Settings())

        def train(seed: int) -> dict[str, float]:
            checkpoint = train_critic(
                found.learned,
                found.held_out,
                dataclasses.replace(recipe, seed=seed),
                output if runs == 1 else output / f"seed-{seed}",
                data=found.data,
                features=features,
                vectors=start,
                device=device,
            )
            say(f"critic: {checkpoint.label}")
            return dict(checkpoint.scores)

        scores = repeated(train, runs, recipe.seed)
    rows = [[name, f"{mean:.4f}", f"{spread:.4f}" if runs > 1 else "-"] for name, (mean, spread) in scores.items()]
    title = (
        f"held-out images: s(Θ, D) of human captions and of each source of negatives ({len(found.held_out):,} images)"
    )
    payload = {name: {"mean": mean, "deviation": spread} for name, (mean, spread) in scores.items()}
    show(Table(title, ["captions", "s", f"deviation over {runs} runs"], rows, [False, True, True]), payload, format)
