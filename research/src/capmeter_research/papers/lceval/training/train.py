"""The training of LCEval's networks, from files of captions to their checkpoints."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capmeter.core.checkpoints import Checkpoint, TrainingData
from capmeter.core.errors import InputError
from capmeter.core.messages import format_count
from capmeter.core.options import argument, option
from capmeter.core.output_files import atomic_file
from capmeter.core.progress import report_progress
from capmeter_research.common.benchmark_exclusions import PhotoId, read_exclusions
from capmeter_research.common.model_selection import load_selection_judgments
from capmeter_research.common.options import (
    describe_file,
    device_option,
    device_settings,
    exclusions_option,
    output_option,
    override,
    require_torch,
    runs_option,
    seed_option,
    threads_option,
)
from capmeter_research.common.training_curves import METRICS
from capmeter_research.papers.lceval.training.recipe import LcEvalRecipe
from capmeter_research.papers.lceval.training.variants import Variant, resolve_variants

if TYPE_CHECKING:
    from capmeter_research.papers.lceval.training.examples import LabelledCandidate
    from capmeter_research.papers.lceval.training.training_set import TrainingSet

CUSTOM = "custom"
"""The name of a network of chosen features."""
_RECIPE_OPTIONS = ("epochs", "patience", "restarts", "ranking_weight", "weight_decay", "seed")


@dataclass(frozen=True, kw_only=True)
class LcEvalOptions:
    """The captions, the networks, and the settings of the runs."""

    human: list[Path] = argument(
        help="Human captions of photos: JSON lines {image_id, references}, or COCO's annotations.", metavar="FILE..."
    )
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
    threads: int = threads_option()
    device: str | None = device_option()
    seed: int = seed_option()

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


@dataclass(frozen=True)
class NetworkRun:
    """A network that was trained.

    Args:
        examples: number of examples.
        hidden: nodes of each hidden layer.
        epoch: the selected epoch of the selected run.
        scores: mean and standard deviation of each score over the runs.
    """

    examples: int
    hidden: tuple[int, ...]
    epoch: int
    scores: dict[str, tuple[float, float]]


def train(options: LcEvalOptions) -> dict[str, NetworkRun]:
    """Trains the networks, and writes their checkpoints: one into the folder, several into a folder each.

    Features are computed once and stored; an interrupted run is resumed. With several runs each seed has a folder, and
    the network is the run that selection prefers.

    Raises:
        InputError: the captions cannot be read, or a network is unknown.
        MissingBackend: torch is not installed.
    """
    require_torch()
    examples, perturbed_forms, data = _read_examples(options)
    systems = sorted({example.system for example in examples if example.system})
    photo_count = len({example.photo for example in examples})
    report_progress(
        f"{format_count(len(examples), 'example')} of {format_count(photo_count, 'photo')}; {', '.join(systems)}"
    )
    custom_variant = options.custom_variant
    variants = resolve_variants(options.network, systems) if custom_variant is None else {CUSTOM: custom_variant}
    training_sets = _build_training_sets(options, variants, examples, perturbed_forms, data)
    networks = {}
    for network_name, variant in variants.items():
        training_set = training_sets[variant.pool].with_features(variant.features)
        if variant.system is not None:
            training_set = training_set.against_system(variant.system)
        recipe = override(LcEvalRecipe(), options, *_RECIPE_OPTIONS, hidden=variant.hidden)
        network_folder = options.output if len(variants) == 1 else options.output / network_name
        networks[network_name] = _train_network(network_name, training_set, recipe, network_folder, options)
    return networks


def _read_examples(
    options: LcEvalOptions,
) -> tuple[list[LabelledCandidate], list[LabelledCandidate], list[TrainingData]]:
    """The labelled captions, captions with their perturbed forms, and the files that they come from."""
    from capmeter_research.papers.lceval.training.examples import (
        build_examples,
        read_human_captions,
        read_machine_captions,
    )
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
        file_captions = read_machine_captions(path)
        machine += file_captions
        files.append(describe_file(path, len(file_captions)))
    seed = options.seed
    order = sorted(human, key=lambda photo: hashlib.sha256(f"{seed} {photo}".encode()).digest())
    if options.retrieval:
        machine += retrieve_captions(human, order[: options.retrieval], seed=seed)
    further = order[options.retrieval : options.retrieval + options.perturbed]
    perturbed = perturb_captions(human, further, seed=seed) if further else []
    examples = build_examples(human, machine, exclusions, seed=options.seed, max_photos=options.max_photos)
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
    settings = device_settings(options.device)
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
) -> NetworkRun:
    """Trains with each seed; the run that selection prefers becomes the network."""
    from capmeter_research.common.loop import Outcome, run_with_seeds
    from capmeter_research.papers.lceval.training.run import train_lceval

    outcomes: dict[Path, Outcome] = {}

    def train_seed(seed: int) -> dict[str, float]:
        run_folder = folder if options.runs == 1 else folder / f"seed-{seed}"
        outcomes[run_folder] = train_lceval(
            training_set,
            replace(recipe, seed=seed),
            run_folder,
            threads=options.threads,
            description=f"training {network_name}, seed {seed}",
        )
        return dict(outcomes[run_folder].scores)

    scores = run_with_seeds(train_seed, options.runs, recipe.seed)
    selection = "tau" if training_set.judgments is not None else "accuracy"
    best_folder = max(outcomes, key=lambda run_folder: outcomes[run_folder].scores[selection])
    if options.runs > 1:
        Checkpoint.read(best_folder).save(folder)
        run_log: dict[str, Any] = {"runs": options.runs, "selected": best_folder.name}
        run_log["scores"] = {score_name: list(pair) for score_name, pair in scores.items()}
        with atomic_file(folder / METRICS) as file:
            file.write(json.dumps(run_log, indent=1).encode() + b"\n")
    return NetworkRun(len(training_set.human), recipe.hidden, outcomes[best_folder].epoch, scores)
