"""`capmeter train factual`."""

from __future__ import annotations

import hashlib
import time
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from capmeter.cli.main import say
from capmeter.cli.options import Device, Format, Seed
from capmeter.cli.output import show
from capmeter.cli.train.options import Threads, need_torch
from capmeter.progress import shown
from capmeter.report.tables import Table

if TYPE_CHECKING:
    from capmeter.checkpoints import TrainingData


def factual(
    graphs: Path = typer.Argument(..., help="Captions with scene graphs (gzipped JSON lines).", metavar="FILE"),
    output: Path | None = typer.Option(
        None, "--output", "-o", help="Train, and write the graph maker, its checkpoint and its log to this folder."
    ),
    evaluate: bool = typer.Option(
        False,
        "--evaluate",
        help="Do not train: evaluate the maker in `--output`, or the one that capmeter ships.",
    ),
    parses: Path | None = typer.Option(
        None, help="Parsed captions (as for `capmeter train parser`), whose facts the first epoch learns from."
    ),
    exclusions: Path | None = typer.Option(None, help="The photos of benchmarks, whose parses are not learned from."),
    epochs: int = typer.Option(9, help="The number of epochs.", min=1),
    threads: Threads = 1,
    device: Device = None,
    seed: Seed = 0,
    format: Format = "table",
) -> None:
    """Train the maker of faithful scene graphs on graphs that people wrote, or evaluate it on the split `dev`.

    The reader begins as the encoder `minilm` (`capmeter[neural]`). One of forty training captions is held out for
    selection. An interrupted run is resumed.

    **Examples**

    `capmeter train factual factual_scene_graphs.jsonl.gz --parses caption_parses.jsonl.gz
    --exclusions training_exclusions.json.gz --output factual/`

    `capmeter train factual factual_scene_graphs.jsonl.gz --evaluate`
    """
    from capmeter.learning.factual.evaluation import FactJudge, FactScores
    from capmeter.learning.factual.examples import FactExample, parsed_examples, read_factual
    from capmeter.learning.parser.examples import read_examples, read_exclusions
    from capmeter.text.fact_maker import FactMaker
    from capmeter.text.meteor_resources import english_synonyms

    if output is None and not evaluate:
        raise typer.BadParameter("expected a folder to write to, or --evaluate", param_hint="--output")
    if (parses is None) != (exclusions is None):
        raise typer.BadParameter("expected both, or none of the two", param_hint="--parses, --exclusions")
    with shown():
        examples = read_factual(graphs)
        dev = [example for example in examples if example.split == "dev"]
        say(f"{graphs.name}: {len(examples):,} captions, {len(dev):,} of them dev")
        judge = FactJudge(english_synonyms())
        if output is not None and not evaluate:
            need_torch()
            from capmeter.encoders.encoder import device_name
            from capmeter.learning.factual.run import train_factual
            from capmeter.learning.factual.training import FactRecipe

            recipe = FactRecipe(epochs=epochs, seed=seed)
            data = [_file(graphs, len(examples) - len(dev))]
            parsed: list[FactExample] = []
            if parses is not None and exclusions is not None:
                parsed = parsed_examples(read_examples(parses, read_exclusions(exclusions))[0])
                data.append(_file(parses, len(parsed)))
                say(f"{parses.name}: facts of {len(parsed):,} captions")
            chosen = device_name(device or "cpu")
            train_factual(examples, recipe, output, data=data, parsed=parsed, threads=threads, device=chosen)
        maker = FactMaker() if output is None else FactMaker(output)
        captions = [example.caption for example in dev]
        maker.facts(captions[:64])  # the first call loads
        started = time.perf_counter()
        made = maker.facts(captions)
        speed = len(dev) / max(time.perf_counter() - started, 1e-9)
        scores = judge.scores(made, [example.facts for example in dev])
    columns = [*(field.name for field in fields(FactScores)), "captions_per_second"]
    row = [*asdict(scores).values(), round(speed)]
    payload = {"maker": maker.version, "dev": dict(zip(columns, row, strict=True))}
    rounded = [round(value, 2) for value in row]
    show(Table("dev captions, %", columns, [rounded], [True] * len(columns)), payload, format)
    say(f"graph maker: {maker.version}")


def _file(path: Path, captions: int) -> TrainingData:
    from capmeter.checkpoints import TrainingData

    return TrainingData(path.name, hashlib.sha256(path.read_bytes()).hexdigest(), captions)
