"""The training of LCEval's networks, from files of captions to their checkpoints."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capmeter.core.checkpoints import Checkpoint, TrainingData
from capmeter.core.errors import InputError
from capmeter.core.messages import format_count
from capmeter.core.options import argument, option
from capmeter.core.progress import report_progress
from capmeter.report.tables import Table
from capmeter_research.common.benchmark_exclusions import PhotoId, read_exclusions
from capmeter_research.common.machine_captions import read_machine_captions
from capmeter_research.common.model_selection import load_selection_judgments
from capmeter_research.common.options import (
    RunOptions,
    TrainingReport,
    describe_file,
    exclusions_option,
    output_option,
    override,
    runs_option,
)
from capmeter_research.papers.lceval.training.variants import Variant, resolve_variants

if TYPE_CHECKING:
    from capmeter_research.papers.lceval.training.examples import LabelledCandidate
    from capmeter_research.papers.lceval.training.training import LcEvalRecipe
    from capmeter_research.papers.lceval.training.training_set import TrainingSet

CUSTOM = "custom"
"""The name of a network of chosen features."""
_RECIPE_OPTIONS = ("epochs", "patience", "restarts", "ranking_weight", "weight_decay")


@dataclass(frozen=True, kw_only=True)
class LcEvalOptions:
    """The captions, the networks, and the settings of the runs."""

    human: list[Path] = argument(help="Human captions of photos, in any format.", metavar="FILE...")
    exclusions: Path | None = exclusions_option()
    output: Path = output_option("Write checkpoints, logs and curves to this folder.")
    machine: list[Path] = option([], "Machine captions of these photos; repeatable.")
    retrieval: int = option(0, "Add retrieved captions for this many photos.", minimum=0)
    perturbed: int = option(0, "Rank captions of this many further photos above their perturbed forms.", minimum=0)
    ranking_weight: float = option(0.5, "Weight of this ranking loss.", minimum=0)
    weight_decay: float = option(1e-4, "β of the L2 penalty on weights; 1e-4: the released code's.", minimum=0)
    judgments: Path | None = option(
        None, "Benchmark file used to select the epoch (default: accuracy on held-out photos selects)."
    )
    select: str = option("flickr8k-cf", "Benchmark name, optionally with a protocol: flickr8k-expert:lceval.")
    network: list[str] = option(["lceval"], "lceval, nneval, lceval-semantic …, bundled, or study for all; repeatable.")
    features: str | None = option(None, "Features or groups joined by +, for a custom network.")
    hidden: str = option("12", "Nodes of each hidden layer of a custom network, such as 12+12, or 0.")
    pool: str = option("max", "Pooling over references, for a custom network.", choices=("max", "mean", "min"))
    vectors: str = option("minilm", "Word vectors of WMD and MOWE: minilm, or a file.")
    max_photos: int | None = option(None, "Use at most this many photos.", "--photos", minimum=1)
    max_judgments: int | None = option(None, "Select by at most this many rated captions.", "--judged", minimum=100)
    keep: Path | None = option(None, "Folder of the stored features (default: OUTPUT/features).")
    epochs: int = option(800, "Maximum number of epochs.", minimum=1)
    patience: int = option(40, "Early-stopping patience, in epochs; 0: no early stopping.", minimum=0)
    restarts: int = option(1, "Distil an ensemble of this many random restarts; 1: the paper's training.", minimum=1)
    runs: int = runs_option()
    run: RunOptions = RunOptions()

    def __post_init__(self) -> None:
        if self.features is None and self.pool != "max":
            raise InputError("--pool is for a custom network (--features); see --network lceval-mean and lceval-min")

    @property
    def custom_variant(self) -> Variant | None:
        """The network of the chosen features; None: there is none."""
        from capmeter_research.papers.lceval.features import select_features

        if self.features is None:
            return None
        hidden_nodes = tuple(
            int(node_count) for node_count in self.hidden.split("+") if node_count.isdigit() and int(node_count)
        )
        return Variant(select_features(self.features), hidden_nodes, self.pool)  # type: ignore[arg-type]


def train(options: LcEvalOptions) -> TrainingReport:
    """Train LCEval or NNEval to distinguish human from machine captions.

    Features are computed once and stored; an interrupted run is resumed. With several networks each has its own folder
    in `--output`; with several runs each seed has one, and the network itself is the run that selection prefers.

    **Examples**

    `capmeter train lceval flickr30k_references.jsonl.gz --machine machine_captions.jsonl.gz --exclusions
    training_exclusions.json.gz --judgments flickr8k_cf.jsonl.gz -o lceval/`

    `capmeter train lceval flickr30k_references.jsonl.gz --retrieval 1500 --exclusions training_exclusions.json.gz
    --judgments flickr8k_cf.jsonl.gz --restarts 16 -o lceval/`

    `capmeter train lceval captions_train2014.json --machine results.json --exclusions training_exclusions.json.gz
    --judgments flickr8k_cf.jsonl.gz -o networks/ --network study --runs 2`
    """
    options.run.start()
    from capmeter_research.papers.lceval.training.training import LcEvalRecipe

    examples, perturbed_forms, files = _read_examples(options)
    systems = sorted({example.system for example in examples if example.system})
    photo_count = len({example.photo for example in examples})
    report_progress(
        f"{format_count(len(examples), 'example')} of {format_count(photo_count, 'photo')}; {', '.join(systems)}"
    )
    custom_variant = options.custom_variant
    variants = resolve_variants(options.network, systems) if custom_variant is None else {CUSTOM: custom_variant}
    training_sets = _build_training_sets(options, variants, examples, perturbed_forms, files)
    table_rows: list[list[str]] = []
    data: dict[str, Any] = {}
    several = options.runs > 1
    for network_name, variant in variants.items():
        training_set = training_sets[variant.pool].with_features(variant.features)
        if variant.system is not None:
            training_set = training_set.against_system(variant.system)
        recipe = override(LcEvalRecipe(), options, *_RECIPE_OPTIONS, hidden=variant.hidden, seed=options.run.seed)
        folder = options.output if len(variants) == 1 else options.output / network_name
        epoch, scores = _train_network(network_name, training_set, recipe, folder, options)
        score_cells = [
            (f"{scores[name][0]:.4f} ± {scores[name][1]:.4f}" if several else f"{scores[name][0]:.4f}")
            if name in scores
            else "-"
            for name in ("accuracy", "tau")
        ]
        hidden = "+".join(map(str, variant.hidden)) or "0"
        table_rows.append([network_name, str(len(training_set.human)), hidden, str(epoch), *score_cells])
        pairs = {score_name: list(pair) for score_name, pair in scores.items()}
        data[network_name] = {"epoch": epoch, "runs": options.runs, **pairs}
    note = f"{options.runs} runs: mean ± standard deviation" if several else ""
    columns = ["network", "examples", "hidden", "epoch", "accuracy", "τ"]
    title = "networks, on held-out photos and selecting judgments"
    return TrainingReport(Table(title, columns, table_rows, [False] + [True] * 5, note), data)


def _read_examples(
    options: LcEvalOptions,
) -> tuple[list[LabelledCandidate], list[LabelledCandidate], list[TrainingData]]:
    """The labelled captions, captions with their perturbed forms, and the files that they come from."""
    from capmeter_research.papers.lceval.training.examples import build_examples, read_human_captions
    from capmeter_research.papers.lceval.training.perturbed import perturb_captions
    from capmeter_research.papers.lceval.training.retrieval import retrieve_captions

    exclusions = read_exclusions(options.exclusions)
    human: dict[PhotoId, tuple[str, ...]] = {}
    files = []
    for path in options.human:
        captions, excluded = read_human_captions(path, exclusions)
        left_out = format_count(excluded, "benchmark photo was", "benchmark photos were")
        report_progress(f"{path.name}: {format_count(len(captions), 'photo')}; {left_out} left out")
        human |= captions
        texts = (text for photo_captions in captions.values() for text in photo_captions)
        files.append(describe_file(path, len(captions), texts))
    machine = []
    for path in options.machine:
        stem = path.name.partition(".")[0]
        file_captions = [replace(each, system=each.system or stem) for each in read_machine_captions(path)]
        machine += file_captions
        files.append(describe_file(path, len(file_captions)))
    seed = options.run.seed
    order = sorted(human, key=lambda photo: hashlib.sha256(f"{seed} {photo}".encode()).digest())
    if options.retrieval:
        machine += retrieve_captions(human, order[: options.retrieval], seed=seed)
    further = order[options.retrieval : options.retrieval + options.perturbed]
    perturbed = perturb_captions(human, further, seed=seed) if further else []
    examples = build_examples(human, machine, exclusions, seed=seed, max_photos=options.max_photos)
    return examples, perturbed, files


def _build_training_sets(
    options: LcEvalOptions,
    variants: dict[str, Variant],
    examples: list[LabelledCandidate],
    perturbed: list[LabelledCandidate],
    data: list[TrainingData],
) -> dict[str, TrainingSet]:
    """The training set of each pooling that a variant uses, with the features that they need."""
    from capmeter_research.papers.lceval.features import FEATURES, Features
    from capmeter_research.papers.lceval.training.training_set import build_training_set

    judgments = None
    if options.judgments is not None:
        judgments = load_selection_judgments(options.select, options.judgments, options.max_judgments)
    settings = options.run.settings
    feature_folder = options.keep or options.output / "features"
    training_sets: dict[str, TrainingSet] = {}
    for pool in dict.fromkeys(variant.pool for variant in variants.values()):
        feature_names = {name for variant in variants.values() if variant.pool == pool for name in variant.features}
        features = Features(
            tuple(name for name in FEATURES if name in feature_names), pool=pool, vectors=options.vectors
        )
        if judgments is None and options.restarts == 1 and not any(example.held_out for example in examples):
            photos = len({example.photo for example in examples})
            raise InputError(
                f"none of {photos:,} photos is held out and there are no judgments, so nothing selects the epoch; give "
                "more photos (five per cent are held out), --judgments, or --restarts"
            )
        training_sets[pool] = build_training_set(
            examples, judgments, features, feature_folder, perturbed=perturbed, data=data, settings=settings
        )
    return training_sets


def _train_network(
    network_name: str, training_set: TrainingSet, recipe: LcEvalRecipe, folder: Path, options: LcEvalOptions
) -> tuple[int, dict[str, tuple[float, float]]]:
    """Trains with each seed; the selected epoch of the best run, and mean and deviation of each score over the runs."""
    from capmeter_research.common.loop import run_with_seeds
    from capmeter_research.papers.lceval.training.training import train_lceval

    selection = "tau" if training_set.judgments is not None else "accuracy"

    def train_seed(seed: int, run_folder: Path) -> tuple[Mapping[str, float], float]:
        scores = train_lceval(
            training_set,
            replace(recipe, seed=seed),
            run_folder,
            threads=options.run.threads,
            description=f"training {network_name}, seed {seed}",
        ).scores
        return scores, scores[selection]

    scores = run_with_seeds(train_seed, options.runs, recipe.seed, folder)
    return int(Checkpoint.read(folder).training["epoch"]), scores
