"""`capmeter train leic`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from capmeter.cli.main import say
from capmeter.cli.options import Device, Format, Seed, one_of
from capmeter.cli.output import show
from capmeter.cli.train.options import Exclusions, Runs, Threads, need_torch
from capmeter.learning.leic.recipe import PRESETS, CriticRecipe, read_shares
from capmeter.metrics.leic.shape import CONTEXTS, FUSIONS
from capmeter.progress import shown
from capmeter.report.tables import Table


def leic(
    captions: Annotated[
        list[str],
        typer.Argument(
            help="Captions that people wrote of photos, and whose photos they are: coco=FILE, coco=pycocoevalcap "
            "(the captions in that package), flickr30k=FILE, world=FOLDER/captions.jsonl.",
            metavar="SOURCE=FILE...",
        ),
    ],
    exclusions: Exclusions,
    output: Annotated[Path, typer.Option("--output", "-o", help="Write the checkpoint and the log to this folder.")],
    machine: Annotated[
        list[str], typer.Option("--machine", help="Captions that captioners wrote of these photos; repeatable.")
    ] = [],
    samples: Annotated[
        list[str], typer.Option("--samples", help="Monte-Carlo samples of a captioner; repeatable.")
    ] = [],
    preset: Annotated[
        str, typer.Option("--preset", help="The settings that other options change.", **one_of(PRESETS))
    ] = "coco",
    negatives: Annotated[
        str | None,
        typer.Option(
            "--negatives",
            help="Where negatives come from: machine, monte-carlo, other-caption, permutation, replacement, each with "
            "its share: machine=3,permutation=1.",
        ),
    ] = None,
    others: Annotated[
        int | None, typer.Option("--others", help="Captions of other images that share the weight of one.", min=1)
    ] = None,
    context: Annotated[
        str, typer.Option("--context", help="What the critic knows besides the candidate.", **one_of(CONTEXTS))
    ] = "reference",
    fusion: Annotated[
        str, typer.Option("--fusion", help="How context and candidate are fused.", **one_of(FUSIONS))
    ] = "concatenation",
    hidden: Annotated[
        str, typer.Option("--hidden", help="Widths of the classifier's hidden layers joined by +; 0 for none.")
    ] = "512",
    layers: Annotated[int | None, typer.Option("--layers", help="LSTM layers.", min=1)] = None,
    width: Annotated[int | None, typer.Option("--width", help="Width of the LSTM.", min=1)] = None,
    embedding: Annotated[int | None, typer.Option("--embedding", help="Width of the word vectors.", min=1)] = None,
    vectors: Annotated[
        str | None,
        typer.Option("--vectors", help="Word vectors to start from (GloVe, word2vec, fastText); none: seeded."),
    ] = None,
    features: Annotated[
        str | None, typer.Option("--features", help="Image features: an .npz file with image_ids and features.")
    ] = None,
    words: Annotated[int | None, typer.Option("--words", help="Largest size of the vocabulary.", min=1)] = None,
    photos: Annotated[int, typer.Option("--photos", help="Use so many photos of each source; 0: all.", min=0)] = 0,
    images: Annotated[int | None, typer.Option("--images", help="Images per batch.", min=2)] = None,
    epochs: Annotated[int | None, typer.Option("--epochs", help="The number of epochs.", min=1)] = None,
    rate: Annotated[float | None, typer.Option("--rate", help="Learning rate.")] = None,
    gamma: Annotated[float | None, typer.Option("--gamma", help="The rate's factor after every epoch.")] = None,
    decay: Annotated[str | None, typer.Option("--decay", help="How the rate falls: constant, linear, cosine.")] = None,
    dropout: Annotated[float | None, typer.Option("--dropout", help="Share of numbers dropped in training.")] = None,
    runs: Runs = 1,
    threads: Threads = 1,
    device: Device = None,
    seed: Seed = 0,
    format: Format = "table",
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
    need_torch()
    import dataclasses

    import torch

    from capmeter.encoders.encoder import device_name
    from capmeter.errors import InputError
    from capmeter.learning.corpus import named_file, read_corpus
    from capmeter.learning.leic.reading import read_images
    from capmeter.learning.leic.run import train_critic
    from capmeter.learning.loop import repeated
    from capmeter.learning.parser.examples import read_exclusions
    from capmeter.metrics.leic.image_features import read_features
    from capmeter.settings import Settings

    chosen: dict[str, Any] = {
        "negatives": None if negatives is None else read_shares(negatives),
        "others": others,
        "context": context,
        "fusion": fusion,
        "hidden": _widths(hidden),
        "layers": layers,
        "width": width,
        "embedding": embedding,
        "words": words,
        "images": images,
        "epochs": epochs,
        "rate": rate,
        "gamma": gamma,
        "decay": decay,
        "dropout": dropout,
    }
    recipe: CriticRecipe = dataclasses.replace(
        PRESETS[preset], **{name: value for name, value in chosen.items() if value is not None}
    )
    if recipe.sees_image and features is None:
        raise InputError(f"context={context} needs --features, or choose --context reference")
    torch.set_num_threads(threads)
    with shown():
        listed = {**read_exclusions(exclusions), "world": frozenset[str]()}  # made photos are in no benchmark
        corpora = []
        for source, file in map(named_file, captions):
            corpora.append(read_corpus(source, file, listed))
            say(f"{source}: {len(corpora[-1].photos):,} photos; {corpora[-1].excluded:,} of benchmarks were left out")
        found = read_images(corpora, machine, samples, most=photos)
        start = None
        if vectors is not None:
            from capmeter.metrics.word_vectors import find_vectors

            start = find_vectors(vectors, Settings())

        def train(number: int) -> dict[str, float]:
            checkpoint = train_critic(
                found.learned,
                found.held_out,
                dataclasses.replace(recipe, seed=number),
                output if runs == 1 else output / f"seed-{number}",
                data=found.data,
                features=None if features is None else read_features(features),
                vectors=start,
                device=device_name(device or "cpu"),
            )
            say(f"critic: {checkpoint.label}")
            return dict(checkpoint.scores)

        scores = repeated(train, runs, seed)
    rows = [[name, f"{mean:.4f}", f"{spread:.4f}" if runs > 1 else "-"] for name, (mean, spread) in scores.items()]
    title = (
        f"held-out images: s(Θ, D) of human captions and of each source of negatives ({len(found.held_out):,} images)"
    )
    payload = {name: {"mean": mean, "deviation": spread} for name, (mean, spread) in scores.items()}
    show(Table(title, ["captions", "s", f"deviation over {runs} runs"], rows, [False, True, True]), payload, format)


def _widths(text: str) -> tuple[int, ...]:
    try:
        return tuple(width for width in map(int, text.split("+")) if width)
    except ValueError:
        raise typer.BadParameter(f"{text!r}: expected widths joined by +, such as 512", param_hint="--hidden") from None
