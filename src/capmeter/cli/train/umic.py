"""`capmeter train umic` and `capmeter train import-uniter`."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Annotated, Any

import typer

from capmeter.cli.main import say
from capmeter.cli.options import Device, Format, Regions, Seed, one_of
from capmeter.cli.output import show
from capmeter.cli.train.options import Runs, need_torch
from capmeter.errors import InputError
from capmeter.learning.recipe import PRECISIONS
from capmeter.progress import shown
from capmeter.report.tables import Table
from capmeter.transforms.negatives import Negatives, parse_negatives

FROM = typer.Option(None, "--from", help="The checkpoint to fine-tune: a name or folder (`import-uniter` makes one).")


def umic(
    captions: Annotated[
        str | None, typer.Argument(help="True captions by image, in any format of references (COCO …).")
    ] = None,
    output: Path = typer.Option(..., "--output", "-o", help="Write the checkpoint, state and log to this folder."),
    regions: Regions = "",
    held_out: str | None = typer.Option(None, "--held-out", help="Captions of the images that select the checkpoint."),
    exclusions: Path | None = typer.Option(
        None, "--exclusions", help="Photos of benchmarks, whose captions are never used (gzipped JSON)."
    ),
    start: str | None = FROM,
    world: int = typer.Option(0, "--world", help="Train from random weights on so many drawn pictures instead.", min=0),
    encoder: str = typer.Option(
        "world-encoder", "--encoder", help="With --world: what gives regions their features, a name or folder."
    ),
    negatives: str = typer.Option("paper", "--negatives", help="paper or released; see `capmeter negatives`."),
    epochs: int | None = typer.Option(None, help="Passes of so many batches as the recipe says.", min=1),
    batches: int | None = typer.Option(None, help="Batches per epoch.", min=1),
    batch: int | None = typer.Option(None, help="Captions per batch, each with its negatives.", min=2),
    pairs: int | None = typer.Option(
        None, "--held-out-pairs", help="Captions of held-out images (at most) whose loss selects the checkpoint.", min=1
    ),
    accumulate: int = typer.Option(1, help="Batches per step, where memory is short.", min=1),
    rate: float | None = typer.Option(None, help="Highest learning rate."),
    precision: Annotated[
        str | None,
        typer.Option(
            help="Precision of the forward pass in training (default: bfloat16 on a GPU, else float32).",
            **one_of(PRECISIONS),
        ),
    ] = None,
    runs: Runs = 1,
    ablate: bool = typer.Option(False, "--ablate", help="Also train without each kind of negatives, and compare."),
    workers: int = typer.Option(1, help="Processes that draw pictures and negatives.", min=1, max=256),
    device: Device = None,
    seed: Seed = 0,
    format: Format = "table",
) -> None:
    """Train UMIC: a UNITER that ranks captions above their negatives.

    Fine-tuning has the paper's settings: margin .2, learning rate 2e-6, 4,000 steps of 64 captions with four negatives
    each, the checkpoint with the lowest loss on 25,000 held-out captions. An interrupted run is resumed. With `--runs`
    the table has mean and standard deviation, and the run with the lowest loss becomes the checkpoint.

    **Examples**

    `capmeter train umic captions_train2014.json --regions coco/ --held-out captions_val2014.json
    --exclusions training_exclusions.json.gz --from uniter-base/ --output umic/ --runs 5`

    `capmeter train umic --world 5000 --encoder world-encoder/ --output umic-world/ --workers 2`
    """
    need_torch()
    from dataclasses import replace

    from capmeter.encoders.encoder import device_name
    from capmeter.encoders.world.encoder import load_world_encoder
    from capmeter.learning.loop import repeated
    from capmeter.learning.umic.run import Start, evaluate_umic, train_umic, world_data
    from capmeter.learning.umic.training import WORLD_RECIPE, UmicRecipe
    from capmeter.meta.metric_similarity import scores_between

    chosen = parse_negatives(negatives)
    if bool(world) == bool(captions):
        raise typer.BadParameter("expected either captions, or --world N", param_hint="CAPTIONS")
    place = device_name(device or "auto")
    given = {"epochs": epochs, "batches": batches, "batch": batch, "pairs": pairs, "rate": rate}
    recipe = replace(
        WORLD_RECIPE if world else UmicRecipe(),
        accumulate=accumulate,
        precision=precision or ("bfloat16" if place.startswith("cuda") else "float32"),
        **{name: value for name, value in given.items() if value is not None},  # type: ignore[arg-type]
    )
    test = None
    with shown():
        if world:
            seeing = load_world_encoder(encoder, place)
            made = world_data(world_sizes(world), seeing, seed=seed, workers=workers)
            train, dev, test, data = made.train, made.dev, made.test, made.data
        else:
            train, dev, data = _files(captions or "", held_out, regions, exclusions)
        begin = _start(start) if start else None
        if begin is None and not world:
            raise typer.BadParameter(
                "expected the checkpoint to fine-tune (import-uniter makes one)", param_hint="--from"
            )
        lowest: dict[Path, float] = {}

        def one(number: int, drawn: Negatives, to: Path) -> dict[str, float]:
            folder = to if runs == 1 else to / f"seed-{number}"
            sentences = tuple(train.captions.pool.sentences)
            width = train.bank.get(0)[0].shape[1]
            from_here = Start.random(sentences, width, number) if begin is None else begin
            checkpoint = train_umic(
                from_here,
                train,
                dev,
                drawn,
                replace(recipe, seed=number),
                folder,
                data=data,
                device=place,
                workers=workers,
                scorer=scores_between,
            )
            if runs > 1 and checkpoint.scores["minus_loss"] > lowest.get(to, -math.inf):
                lowest[to] = checkpoint.scores["minus_loss"]
                checkpoint.save(to)
            return evaluate_umic(checkpoint, dev if test is None else test, chosen, place, scores_between)

        variants = {"all": (chosen, output)}
        for kind in chosen.kinds if ablate else ():
            without = replace(chosen, without=(*chosen.without, kind))
            variants[f"without {kind}"] = (without, output / f"without-{kind}")
        scores = {
            name: repeated(lambda number, drawn=drawn, to=to: one(number, drawn, to), runs, seed)  # type: ignore[misc]
            for name, (drawn, to) in variants.items()
        }
    kinds = scores["all"]
    rows: list[list[Any]] = []
    for kind in kinds:
        cells = [found[kind] for found in scores.values()]
        rows.append([kind, *(f"{mean:.1f}" + (f" ± {spread:.1f}" if runs > 1 else "") for mean, spread in cells)])
    title = "held-out pictures: how often the true caption scores above its negative, %"
    table = Table(title, ["negative", *scores], rows, [False] + [True] * len(scores))
    payload = {
        name: {kind: {"mean": mean, "spread": spread} for kind, (mean, spread) in found.items()}
        for name, found in scores.items()
    }
    show(table, {"umic": payload, "runs": runs, "negatives": str(chosen), "output": str(output)}, format)


def world_sizes(scenes: int) -> tuple[int, int, int]:
    """How many drawn pictures train, select and test."""
    return scenes, max(20, min(1000, scenes // 10)), max(20, min(1000, scenes // 10))


def _start(name: str) -> Any:
    from capmeter.checkpoints import load_checkpoint
    from capmeter.encoders.uniter_files import KIND
    from capmeter.learning.umic.run import Start

    return Start.checkpoint(load_checkpoint(name, KIND))


def _files(captions: str, held_out: str | None, regions: str, exclusions: Path | None) -> tuple[Any, Any, Any]:
    from capmeter.captions.io import load_references
    from capmeter.checkpoints import TrainingData
    from capmeter.images.regions import BoxRule
    from capmeter.learning.parser.examples import read_exclusions
    from capmeter.learning.umic.examples import file_examples

    if not regions or held_out is None or exclusions is None:
        raise typer.BadParameter("captions need --regions, --held-out and --exclusions", param_hint="--regions")
    listed = read_exclusions(exclusions)
    found, data = [], []
    for name in (captions, held_out):
        found.append(file_examples(load_references(name), regions, BoxRule(), listed))
        digest = hashlib.sha256(Path(name).read_bytes()).hexdigest()
        data.append(TrainingData(Path(name).name, digest, len(found[-1])))
    shared = set(found[0].captions.image_ids) & set(found[1].captions.image_ids)
    if shared:
        raise InputError(f"{len(shared)} images are both in {captions} and held out (the first: {min(shared)})")
    return found[0], found[1], tuple(data)


def import_uniter(
    state_dict: Path = typer.Argument(..., help="Published weights: uniter-base.pt, umic.pt …", metavar="FILE"),
    vocabulary: Path = typer.Option(..., "--vocabulary", help="vocab.txt of bert-base-cased."),
    output: Path = typer.Option(..., "--output", "-o", help="Write the checkpoint to this folder."),
    config: Path | None = typer.Option(None, "--config", help="The model's JSON file, if its heads are not 64 wide."),
) -> None:
    """Convert the published weights of UNITER or UMIC; nothing in the file is run.

    **Example**

    `capmeter train import-uniter umic.pt --vocabulary vocab.txt --output umic/`
    """
    need_torch()
    from capmeter.encoders.uniter_files import convert_uniter

    made = convert_uniter(state_dict, vocabulary, output, config)
    heads = [name.removesuffix(".weight") for name in made.weights if name.endswith("_output.weight")]
    say(f"{output}: {made.label}, {made.parameters['shape']}, heads {', '.join(heads) or 'none'}")
