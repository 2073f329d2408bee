"""The training of UMIC, from captions and regions, or synthetic scenes, to its checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from capmeter.captions.load import load_references
from capmeter.core.checkpoints import load_checkpoint
from capmeter.core.errors import InputError
from capmeter.core.messages import format_count
from capmeter.core.options import argument, option
from capmeter.report.tables import Table
from capmeter_research.common.benchmark_exclusions import read_exclusions
from capmeter_research.common.options import (
    RunOptions,
    TrainingReport,
    describe_file,
    exclusions_option,
    output_option,
    override,
    precision_option,
    runs_option,
    workers_option,
)
from capmeter_research.papers.umic.training.negatives import Negatives, parse_negatives

if TYPE_CHECKING:
    from capmeter_research.papers.umic.training.examples import ExampleSplits

_NAMES = ("epochs", "batches", "batch", "pairs", "lr", "accumulate")


@dataclass(frozen=True, kw_only=True)
class UmicOptions:
    """The captions, the starting point, and the settings of the runs."""

    captions: str | None = argument(None, "True captions by image, in any format of references (COCO …).")
    output: Path = output_option("Write the checkpoint, state and log to this folder.")
    regions: str = option("", "Pictures' regions for metrics that need them: a folder of .npz files, or an LMDB.")
    held_out: str | None = option(None, "Captions of the images that select the checkpoint.")
    exclusions: Path | None = exclusions_option()
    start: str | None = option(
        None, "The checkpoint to fine-tune: a name or folder (`import-uniter` makes one).", "--from"
    )
    scenes: int = option(0, "Train from random weights on this many synthetic scenes instead.", minimum=0)
    encoder: str = option("world-encoder", "With --scenes: region encoder, a name or folder.")
    negatives: str = option("paper", "paper or released; see `capmeter negatives`.")
    epochs: int | None = option(None, "Epochs (of the recipe's number of batches).", minimum=1)
    batches: int | None = option(None, "Batches per epoch.", minimum=1)
    batch: int | None = option(None, "Captions per batch, each with its negatives.", minimum=2)
    pairs: int | None = option(
        None,
        "Maximum number of captions of held-out images whose loss selects the checkpoint.",
        "--held-out-pairs",
        minimum=1,
    )
    accumulate: int = option(1, "Gradient-accumulation steps.", minimum=1)
    lr: float | None = option(None, "Highest learning rate.", minimum=1e-8)
    precision: str | None = precision_option(None, " (default: bfloat16 on a GPU, else float32)")
    runs: int = runs_option()
    ablate: bool = option(False, "Also train without each kind of negatives, and compare.")
    workers: int = workers_option()
    run: RunOptions = RunOptions()

    def __post_init__(self) -> None:
        if bool(self.scenes) == bool(self.captions):
            raise InputError("expected either captions, or --scenes N")
        if self.captions and (not self.regions or self.held_out is None or self.exclusions is None):
            raise InputError("captions need --regions, --held-out and --exclusions")
        if self.captions and self.start is None:
            raise InputError("expected the checkpoint to fine-tune: --from (import-uniter makes one)")


def train(options: UmicOptions) -> TrainingReport:
    """Train UMIC: a UNITER that ranks captions above their negatives.

    Fine-tuning has the paper's settings: margin .2, learning rate 2e-6, 4,000 steps of 64 captions with four negatives
    each, the checkpoint with the lowest loss on 25,000 held-out captions. An interrupted run is resumed. With `--runs`
    the table has mean and standard deviation, and the run with the lowest loss becomes the checkpoint.

    **Examples**

    `capmeter train umic captions_train2014.json --regions coco/ --held-out captions_val2014.json
    --exclusions training_exclusions.json.gz --from uniter-base/ --output umic/ --runs 5`

    `capmeter train umic --scenes 5000 --encoder scene-encoder/ --output umic-scenes/ --workers 2`
    """
    device = options.run.start()
    from capmeter_research.common.loop import run_with_seeds
    from capmeter_research.papers.umic.training.training import (
        SCENE_RECIPE,
        StartingPoint,
        UmicRecipe,
        evaluate_umic,
        train_umic,
    )
    from capmeter_research.papers.umic.uniter import KIND

    negatives = parse_negatives(options.negatives)
    precision = options.precision or ("bfloat16" if device.startswith("cuda") else "float32")
    recipe = override(SCENE_RECIPE if options.scenes else UmicRecipe(), options, *_NAMES, precision=precision)
    data = _build_scenes(options, device) if options.scenes else _read_files(options)
    start = StartingPoint.from_checkpoint(load_checkpoint(options.start, KIND)) if options.start else None
    negative_variants = {"all": (negatives, options.output)}
    for negative_kind in negatives.kinds if options.ablate else ():
        other_negatives = replace(negatives, without=(*negatives.without, negative_kind))
        negative_variants[f"without {negative_kind}"] = other_negatives, options.output / f"without-{negative_kind}"
    training_sentences, width = tuple(data.train.captions.pool.sentences), data.train.bank.get(0)[0].shape[1]
    variant_scores = {}
    for variant_name, (variant, variant_folder) in negative_variants.items():

        def train_seed(seed: int, folder: Path, variant: Negatives = variant) -> tuple[Mapping[str, float], float]:
            checkpoint = train_umic(
                StartingPoint.random(training_sentences, width, seed) if start is None else start,
                data.train,
                data.dev,
                variant,
                replace(recipe, seed=seed),
                folder,
                data=data.data,
                device=device,
                workers=options.workers,
            )
            return evaluate_umic(checkpoint, data.test, negatives, device), checkpoint.scores["minus_loss"]

        variant_scores[variant_name] = run_with_seeds(train_seed, options.runs, options.run.seed, variant_folder)
    return _report(options, variant_scores, str(negatives))


def _report(
    options: UmicOptions, scores: Mapping[str, Mapping[str, tuple[float, float]]], negatives: str
) -> TrainingReport:
    """Pairwise accuracies in per cent, by the kind of negatives, of each variant (`all`, `without permutation` …)."""
    table_rows = []
    for kind in scores["all"]:
        pairs = [variant_scores[kind] for variant_scores in scores.values()]
        cells = [f"{mean:.1f}" + (f" ± {deviation:.1f}" if options.runs > 1 else "") for mean, deviation in pairs]
        table_rows.append([kind, *cells])
    title = "held-out images: pairwise accuracy, true caption vs. its negative, %"
    data = {
        variant_name: {kind: {"mean": mean, "spread": std} for kind, (mean, std) in variant_scores.items()}
        for variant_name, variant_scores in scores.items()
    }
    return TrainingReport(
        Table(title, ["negative", *scores], table_rows, [False] + [True] * len(scores)),
        {"umic": data, "runs": options.runs, "negatives": negatives, "output": str(options.output)},
    )


def scene_counts(scenes: int) -> tuple[int, int, int]:
    """Numbers of synthetic scenes for training, selection and test."""
    return scenes, max(20, min(1000, scenes // 10)), max(20, min(1000, scenes // 10))


def _build_scenes(options: UmicOptions, device: str) -> ExampleSplits:
    from capmeter_research.papers.umic.training.examples import build_scene_splits
    from capmeter_research.synthetic_scenes.encoder.encoder import load_world_encoder

    encoder, sizes = load_world_encoder(options.encoder, device), scene_counts(options.scenes)
    return build_scene_splits(sizes, encoder, seed=options.run.seed, workers=options.workers)


def _read_files(options: UmicOptions) -> ExampleSplits:
    """The examples of two files of captions, without benchmark photos."""
    from capmeter_research.common.region_files import BoxRule
    from capmeter_research.papers.umic.training.examples import ExampleSplits, file_examples

    assert options.captions and options.held_out and options.exclusions
    exclusions = read_exclusions(options.exclusions)
    examples, files = [], []
    for captions_file in (options.captions, options.held_out):
        examples.append(file_examples(load_references(captions_file), options.regions, BoxRule(), exclusions))
        files.append(describe_file(Path(captions_file), len(examples[-1])))
    train, held_out = examples
    shared_images = set(train.captions.image_ids) & set(held_out.captions.image_ids)
    if shared_images:
        images = format_count(len(shared_images), "image is", "images are")
        raise InputError(f"{images} both in {options.captions} and held out (the first: {min(shared_images)})")
    return ExampleSplits(train, held_out, held_out, tuple(files))
