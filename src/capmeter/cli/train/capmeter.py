"""`capmeter train capmeter`: the toolkit's own metric, from captions alone, on any encoder."""

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


def capmeter(
    captions: Annotated[
        list[str],
        typer.Argument(
            help="Captions that people wrote of photos, and whose photos they are: coco=FILE, coco=pycocoevalcap (the "
            "captions in that package), flickr30k=FILE.",
            metavar="SOURCE=FILE...",
        ),
    ],
    exclusions: Exclusions,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder of the checkpoint.")],
    encoder: Annotated[
        str, typer.Option("--encoder", help="Alias, hub id or folder of the encoder, or of its adaptation.")
    ] = "minilm-captions",
    layer: Annotated[
        int | None,
        typer.Option(
            "--layer", help="Its layer that is read; none: the last. Words are judged by the one half way up to it."
        ),
    ] = None,
    photos: Annotated[int, typer.Option("--photos", help="Train on so many photos.", min=2)] = 16000,
    judge_photos: Annotated[
        int,
        typer.Option(
            "--judge-photos",
            help="Words are judged by a network that learns from so many more; from all at most.",
            min=0,
        ),
    ] = 120000,
    held_out: Annotated[int, typer.Option("--held-out", help="Calibrate on so many others.", min=2)] = 200,
    judgments: Annotated[
        Path | None,
        typer.Option(
            "--judgments",
            help="The file of the benchmark that chooses how the parts weigh; none: the recipe does.",
        ),
    ] = None,
    select: Annotated[
        str, typer.Option("--select", help="That benchmark, maybe with a protocol: flickr8k-expert:lceval.")
    ] = "flickr8k-cf",
    wrong: Annotated[int, typer.Option("--wrong", help="Wrong forms of each photo's first caption.", min=1)] = 6,
    epochs: Epochs = None,
    judge_epochs: Annotated[
        int | None, typer.Option("--judge-epochs", help="Those of the network that judges words.", min=1)
    ] = None,
    steps: Steps = None,
    threads: Threads = 1,
    seed: Seed = 0,
    device: Device = None,
    format: Format = "table",
) -> None:
    """Train the metric `capmeter` from captions: of similar photos, and made wrong in every way.

    An interrupted run is resumed by the same command.

    `capmeter train capmeter coco=pycocoevalcap flickr30k=flickr30k_references.jsonl.gz --exclusions
    training_exclusions.json.gz --judgments flickr8k_cf.jsonl.gz --output capmeter/`
    """
    need_torch()
    import torch

    from capmeter.encoders import load_encoder
    from capmeter.encoders.encoder import device_name
    from capmeter.learning.capmeter.examples import drawn, drawn_more, known_of, read_examples
    from capmeter.learning.capmeter.recipe import CapmeterRecipe, JudgeRecipe
    from capmeter.learning.capmeter.run import train_capmeter
    from capmeter.learning.corpus import named_file, read_corpus
    from capmeter.learning.parser.examples import read_exclusions
    from capmeter.learning.selecting import selecting

    torch.set_num_threads(threads)
    settings = settings_of(device, None)
    recipe = CapmeterRecipe(seed=seed)
    recipe = replace(recipe, epochs=epochs or recipe.epochs, steps=steps or recipe.steps)
    judging = JudgeRecipe(seed=seed)
    judging = replace(judging, epochs=judge_epochs or judging.epochs, steps=steps or judging.steps)
    with shown():
        weighing = None if judgments is None else selecting(select, judgments)
        listed = read_exclusions(exclusions)
        corpora = [read_corpus(*named_file(each), listed) for each in captions]
        chosen, kept = drawn(corpora, photos, held_out, seed)
        depth = load_encoder(encoder, settings).layer(layer)
        more = drawn_more(corpora, chosen, judge_photos, seed)
        examples = read_examples(
            chosen,
            kept,
            more,
            known=known_of(corpora, chosen, encoder, settings),
            encoder=encoder,
            layer=depth,
            wrong=wrong,
            seed=seed,
            settings=settings,
        )
        say(
            f"{len(chosen):,} photos to train on and {len(more):,} more for words, {len(kept):,} held out, "
            f"{len(examples.sentences):,} sentences"
        )
        made = train_capmeter(
            examples,
            recipe,
            judging,
            output,
            data=[corpus.data for corpus in corpora],
            judgments=weighing,
            device=device_name(settings.device),
        )
    rows = [[name, f"{100 * value:.1f}"] for name, value in made.scores.items()]
    table = Table("captions told from wrong forms, held-out photos", ["kind", "%"], rows, [False, True])
    show(table, {"scores": dict(made.scores), "checkpoint": str(output)}, format)
    say(f"capmeter: {output}")
