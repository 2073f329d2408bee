"""`capmeter train parser`."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated

import typer

from capmeter.cli.main import say
from capmeter.cli.options import Device, Format, Seed
from capmeter.cli.output import show
from capmeter.cli.train.options import Exclusions, Threads, need_torch
from capmeter.progress import shown
from capmeter.report.tables import Table


def parser(
    parses: Annotated[list[Path], typer.Argument(help="Parsed captions (gzipped JSON lines).", metavar="FILE...")],
    exclusions: Exclusions,
    output: Path | None = typer.Option(
        None, "--output", "-o", help="Train, and write the parser, its checkpoint and its log to this folder."
    ),
    evaluate: bool = typer.Option(
        False, "--evaluate", help="Do not train: evaluate the parser in `--output`, or the one that capmeter ships."
    ),
    epochs: int = typer.Option(11, help="The number of epochs.", min=1),
    share: float = typer.Option(
        1.0, help="Train on this share of the photos, for a learning curve.", min=0.001, max=1.0
    ),
    threads: Threads = 1,
    device: Device = None,
    seed: Seed = 0,
    format: Format = "table",
) -> None:
    """Train the caption parser on the parses of another parser, or evaluate it on held-out photos.

    Three per cent of the photos are held out, chosen by their number. An interrupted run is resumed.

    **Examples**

    `capmeter train parser caption_parses.jsonl.gz --exclusions training_exclusions.json.gz --output parser/`

    `capmeter train parser caption_parses.jsonl.gz --exclusions training_exclusions.json.gz --evaluate`
    """
    from capmeter.checkpoints import TrainingData
    from capmeter.learning.parser.evaluation import ParserScores, by_form
    from capmeter.learning.parser.evaluation import evaluate as agreement
    from capmeter.learning.parser.examples import Example, read_examples, read_exclusions
    from capmeter.text.caption_parser import CaptionParser

    if output is None and not evaluate:
        raise typer.BadParameter("expected a folder to write to, or --evaluate", param_hint="--output")
    with shown():
        listed = read_exclusions(exclusions)
        examples: list[Example] = []
        files: list[TrainingData] = []
        for path in parses:
            found, excluded = read_examples(path, listed)
            say(f"{path.name}: {len(found):,} captions; {excluded:,} of benchmark photos were left out")
            examples += found
            files.append(TrainingData(path.name, hashlib.sha256(path.read_bytes()).hexdigest(), len(found)))
        if output is not None and not evaluate:
            need_torch()
            from capmeter.encoders.encoder import device_name
            from capmeter.learning.parser.run import train_parser
            from capmeter.learning.parser.training import ParserRecipe

            recipe = ParserRecipe(epochs=epochs, seed=seed)
            chosen = device_name(device or "cpu")
            train_parser(examples, recipe, output, data=files, share=share, threads=threads, device=chosen)
        made = CaptionParser() if output is None else CaptionParser(output)
        groups = by_form(example for example in examples if example.held_out)
        scores = {name: agreement(made, group) for name, group in groups.items() if group}
    rows = [[name, *score.to_dict().values()] for name, score in scores.items()]
    columns = ["form", *ParserScores.names()]
    table = Table("held-out captions, %", columns, rows, [False] + [True] * (len(columns) - 1))
    payload = {"parser": made.version, "held_out": {name: score.to_dict() for name, score in scores.items()}}
    show(table, payload, format)
    say(f"parser: {made.version}")
