"""`capmeter train lceval`."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Any

import typer

from capmeter.cli.main import say
from capmeter.cli.options import Device, Format, Seed, settings_of
from capmeter.cli.output import show
from capmeter.cli.train.options import Exclusions, Runs, Threads, need_torch
from capmeter.errors import InputError
from capmeter.progress import shown
from capmeter.report.tables import Table


def lceval(
    photos: Annotated[
        list[Path],
        typer.Argument(
            help="Captions that people wrote of photos: JSON lines {image_id, references}, or COCO's annotations.",
            metavar="FILE...",
        ),
    ],
    exclusions: Exclusions,
    output: Annotated[Path, typer.Option("--output", "-o", help="Write checkpoints, logs and curves to this folder.")],
    machine: Annotated[
        list[Path], typer.Option("--machine", help="Captions that systems wrote of them; repeatable.")
    ] = [],
    retrieval: Annotated[
        int, typer.Option("--retrieval", help="Also captions of a retrieving captioner for so many photos.", min=0)
    ] = 0,
    judgments: Annotated[
        Path | None,
        typer.Option("--judgments", help="The file of the benchmark that selects the epoch; none: accuracy selects."),
    ] = None,
    select: Annotated[
        str, typer.Option("--select", help="The benchmark that selects, maybe with a protocol: flickr8k-expert:lceval.")
    ] = "flickr8k-cf",
    network: Annotated[
        list[str],
        typer.Option("--network", help="lceval, nneval, lceval-semantic …, shipped, or study for all; repeatable."),
    ] = ["lceval"],
    features: Annotated[
        str | None, typer.Option("--features", help="Features or groups joined by +, for a network of your own.")
    ] = None,
    hidden: Annotated[
        str, typer.Option("--hidden", help="Nodes of each hidden layer of a network of your own, such as 12+12, or 0.")
    ] = "12",
    pool: Annotated[str, typer.Option("--pool", help="Pooling over references, for a network of your own.")] = "max",
    vectors: Annotated[str, typer.Option("--vectors", help="Word vectors of WMD and MOWE: minilm, or a file.")] = (
        "minilm"
    ),
    most: Annotated[int | None, typer.Option("--photos", help="Use at most this many photos.", min=1)] = None,
    judged_at_most: Annotated[
        int | None, typer.Option("--judged", help="Select by at most this many rated captions.", min=100)
    ] = None,
    keep: Annotated[
        Path | None, typer.Option("--keep", help="Folder where features are kept (default: OUTPUT/features).")
    ] = None,
    epochs: Annotated[int, typer.Option("--epochs", help="The number of epochs at most.", min=1)] = 800,
    patience: Annotated[
        int, typer.Option("--patience", help="End after this many epochs without a better one; 0: never.", min=0)
    ] = 40,
    starts: Annotated[
        int,
        typer.Option(
            "--starts", help="Learn the mean of networks from so many starts; 1: the paper's training.", min=1
        ),
    ] = 1,
    runs: Runs = 1,
    threads: Threads = 1,
    device: Device = None,
    seed: Seed = 0,
    format: Format = "table",
) -> None:
    """Train LCEval or NNEval to tell captions that people wrote from those that machines wrote.

    Features are computed once and kept; an interrupted run is resumed. With several networks each has its own folder
    in `--output`; with several runs each seed has one, and the network itself is the run that selection prefers.

    **Examples**

    `capmeter train lceval flickr30k_references.jsonl.gz --machine machine_captions.jsonl.gz --exclusions
    training_exclusions.json.gz --judgments flickr8k_cf.jsonl.gz -o lceval/`

    `capmeter train lceval flickr30k_references.jsonl.gz --retrieval 1500 --exclusions training_exclusions.json.gz
    --judgments flickr8k_cf.jsonl.gz --starts 16 -o lceval/`

    `capmeter train lceval captions_train2014.json --machine results.json --exclusions training_exclusions.json.gz
    --judgments flickr8k_cf.jsonl.gz -o networks/ --network study --runs 2`
    """
    need_torch()
    from capmeter.checkpoints import TrainingData
    from capmeter.learning.lceval.examples import make_examples, read_machine, read_photos
    from capmeter.learning.lceval.recipe import LcEvalRecipe
    from capmeter.learning.lceval.retrieval import retrieved
    from capmeter.learning.lceval.training_set import TrainingSet, training_set
    from capmeter.learning.lceval.variants import Variant, variants
    from capmeter.learning.parser.examples import read_exclusions
    from capmeter.learning.selecting import selecting
    from capmeter.metrics.lceval.features import FEATURES, Features, chosen

    if features is None and pool != "max":
        raise InputError("--pool is for a network of your own (--features); see --network lceval-mean and lceval-min")
    settings = settings_of(device)
    with shown():
        listed = read_exclusions(exclusions)
        people: dict[Any, tuple[str, ...]] = {}
        files: list[TrainingData] = []
        for path in photos:
            found, left_out = read_photos(path, listed)
            say(f"{path.name}: {len(found):,} photos; {left_out:,} of benchmarks were left out")
            people |= found
            files.append(_file(path, len(found)))
        written = []
        for path in machine:
            captions = read_machine(path)
            written += captions
            files.append(_file(path, len(captions)))
        if retrieval:
            chosen_photos = sorted(people, key=lambda photo: hashlib.sha256(f"{seed} {photo}".encode()).digest())
            written += retrieved(people, chosen_photos[:retrieval], seed=seed)
        examples = make_examples(people, written, listed, seed=seed, most=most)
        systems = sorted({each.system for each in examples if each.system})
        say(f"{len(examples):,} examples of {len({each.photo for each in examples}):,} photos; {', '.join(systems)}")
        wanted = variants(network, systems)
        if features is not None:
            nodes = tuple(int(each) for each in hidden.split("+") if each.isdigit() and int(each))
            if pool not in ("max", "mean", "min"):
                raise InputError(f"--pool: expected max, mean or min, but got {pool!r}")
            wanted = {"own": Variant(chosen(features), nodes, pool)}  # type: ignore[arg-type]
        judged = None if judgments is None else selecting(select, judgments, judged_at_most)
        sets: dict[str, TrainingSet] = {}
        for each in dict.fromkeys(variant.pool for variant in wanted.values()):
            used = {name for variant in wanted.values() if variant.pool == each for name in variant.features}
            computed = Features(tuple(name for name in FEATURES if name in used), pool=each, vectors=vectors)
            sets[each] = training_set(
                examples, judged, computed, keep or output / "features", data=files, settings=settings
            )
        rows, payload = [], {}
        for name, variant in wanted.items():
            known = sets[variant.pool].of(variant.features)
            known = known if variant.system is None else known.against(variant.system)
            recipe = LcEvalRecipe(epochs=epochs, patience=patience, hidden=variant.hidden, starts=starts, seed=seed)
            folder = output if len(wanted) == 1 else output / name
            said = _train(name, known, recipe, folder, runs, threads)
            payload[name] = said
            rows.append([name, str(len(known.human)), "+".join(map(str, variant.hidden)) or "0", str(said["epoch"])])
            rows[-1] += [_with_spread(said, score) for score in ("accuracy", "tau")]
    note = f"{runs} runs: mean ± standard deviation" if runs > 1 else ""
    columns = ["network", "examples", "hidden", "epoch", "accuracy", "τ"]
    show(
        Table("networks, on held-out photos and selecting judgments", columns, rows, [False] + [True] * 5, note),
        payload,
        format,
    )


def _train(name: str, known: Any, recipe: Any, folder: Path, runs: int, threads: int) -> dict[str, Any]:
    """Trains with each seed; the run that selection prefers becomes the network. Returns its epoch and the scores."""
    import json
    from dataclasses import replace

    from capmeter.atomic import atomic_file
    from capmeter.checkpoints import Checkpoint
    from capmeter.learning.course import METRICS
    from capmeter.learning.lceval.run import train_lceval
    from capmeter.learning.loop import repeated

    select = "tau" if known.judged is not None else "accuracy"
    outcomes: dict[Path, Any] = {}

    def train(seed: int) -> dict[str, float]:
        place = folder if runs == 1 else folder / f"seed-{seed}"
        found = train_lceval(
            known, replace(recipe, seed=seed), place, threads=threads, description=f"training {name}, seed {seed}"
        )
        outcomes[place] = found
        return dict(found.scores)

    spread = repeated(train, runs, recipe.seed)
    best = max(outcomes, key=lambda place: outcomes[place].scores[select])
    if runs > 1:
        Checkpoint.read(best).save(folder)
        said = {"runs": runs, "selected": best.name, "scores": {key: list(pair) for key, pair in spread.items()}}
        with atomic_file(folder / METRICS) as file:
            file.write(json.dumps(said, indent=1).encode() + b"\n")
    return {"epoch": outcomes[best].epoch, "runs": runs, **{key: list(pair) for key, pair in spread.items()}}


def _with_spread(said: dict[str, Any], score: str) -> str:
    if score not in said:
        return "-"
    mean, deviation = said[score]
    return f"{mean:.4f} ± {deviation:.4f}" if said["runs"] > 1 else f"{mean:.4f}"


def _file(path: Path, examples: int) -> Any:
    from capmeter.checkpoints import TrainingData

    return TrainingData(path.name, hashlib.sha256(path.read_bytes()).hexdigest(), examples)
