"""The options of a critic's training, for every command that trains critics, and the training of LEIC's critic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capmeter.core.errors import InputError
from capmeter.core.options import option, option_group
from capmeter.core.progress import report_progress
from capmeter.report.tables import Table
from capmeter_research.common.image_features import FeatureFile
from capmeter_research.common.options import (
    CpuRunOptions,
    RunOptions,
    TrainingReport,
    corpora_argument,
    exclusions_option,
    output_option,
    override,
    read_corpora,
    runs_option,
)
from capmeter_research.common.recipe import LR_SCHEDULES
from capmeter_research.papers.leic.shape import CONTEXTS, FUSIONS
from capmeter_research.papers.leic.training.recipe import PRESETS, CriticRecipe, read_shares

if TYPE_CHECKING:
    from capmeter_research.papers.leic.training.reading import TrainingImages

_NAMES = (
    *("context", "fusion", "layers", "width", "embedding", "steps", "pooled", "others", "words", "least", "brief"),
    *("images", "epochs", "lr", "gamma", "lr_schedule", "max_grad_norm", "dropout"),
)


def _parse_widths(text: str) -> tuple[int, ...]:
    try:
        return tuple(width for width in map(int, text.split("+")) if width)
    except ValueError:
        raise InputError(f"{text!r}: expected widths joined by +, such as 512") from None


@dataclass(frozen=True, kw_only=True)
class CriticOptions:
    """A preset, and what differs from it."""

    preset: str = option("coco", "Preset; other options override it.", choices=tuple(PRESETS))
    context: str | None = option(None, "What the critic sees besides the candidate.", choices=CONTEXTS)
    fusion: str | None = option(None, "How context and candidate are fused.", choices=FUSIONS)
    hidden: str | None = option(
        None, "Widths of the classifier's hidden layers joined by +; 0 for none.", check=_parse_widths
    )
    layers: int | None = option(None, "LSTM layers.", minimum=1)
    width: int | None = option(None, "Width of the LSTM.", minimum=1)
    embedding: int | None = option(None, "Dimension of the word vectors.", minimum=1)
    steps: int | None = option(None, "Maximum number of words of a caption.", minimum=1)
    pooled: int | None = option(None, "Width of bilinear pooling.", minimum=1)
    negatives: str | None = option(
        None,
        "Sources of negatives: machine, monte-carlo, other-caption, permutation, replacement, each with its share: "
        "machine=3,permutation=1.",
    )
    others: int | None = option(None, "Captions of other images that share the weight of one.", minimum=1)
    words: int | None = option(None, "Maximum size of the vocabulary.", minimum=1)
    least: int | None = option(None, "Minimum frequency of a word of the vocabulary.", "--min-count", minimum=1)
    brief: int | None = option(
        None,
        "Curriculum: number of first epochs without images that have long captions.",
        "--curriculum-epochs",
        minimum=0,
    )
    images: int | None = option(None, "Images per batch.", minimum=2)
    epochs: int | None = option(None, "Number of epochs.", minimum=1)
    lr: float | None = option(None, "Learning rate.", minimum=1e-8)
    gamma: float | None = option(None, "Factor of the learning rate after every epoch.", minimum=0)
    lr_schedule: str | None = option(None, "How the learning rate falls.", choices=LR_SCHEDULES)
    max_grad_norm: float | None = option(None, "Gradients are clipped to this norm; 0: no clipping.", minimum=0)
    dropout: float | None = option(None, "Dropout.", minimum=0, maximum=0.99)
    run: RunOptions = CpuRunOptions()

    @property
    def recipe(self) -> CriticRecipe:
        """The settings of the run."""
        return override(
            PRESETS[self.preset],
            self,
            *_NAMES,
            hidden=None if self.hidden is None else _parse_widths(self.hidden),
            negatives=None if self.negatives is None else read_shares(self.negatives),
            seed=self.run.seed,
        )


@dataclass(frozen=True, kw_only=True)
class CriticImages:
    """The captions that a critic is trained on."""

    captions: list[str] = corpora_argument("coco, flickr30k, or world=FOLDER/captions.jsonl")
    exclusions: Path | None = exclusions_option()
    machine: list[str] = option([], "Machine captions of these photos; repeatable.")
    samples: list[str] = option([], "Monte-Carlo samples of a captioner; repeatable.")
    photos: int = option(0, "Photos per source (0: all).", minimum=0)

    def read(self) -> TrainingImages:
        """The images of these files, without benchmark photos; reports their numbers."""
        from capmeter_research.papers.leic.training.reading import read_images

        corpora = read_corpora(self.captions, self.exclusions, sources=["world"])
        return read_images(corpora, self.machine, self.samples, most=self.photos)


def features_option() -> Any:
    """The file of image features."""
    return option(
        None,
        "Image features: an .npz file with image_ids and features, or an LMDB.",
        "--features",
        value_type=str | None,
        convert=FeatureFile,
    )


@dataclass(frozen=True, kw_only=True)
class LeicOptions:
    """The captions, and the settings of the runs."""

    images: CriticImages
    output: Path = output_option()
    vectors: str | None = option(
        None, "Word vectors to initialise from (GloVe, word2vec, fastText); default: random, by the seed."
    )
    features: FeatureFile | None = features_option()
    runs: int = runs_option()
    critic: CriticOptions = option_group(CriticOptions, context="reference")


def train(options: LeicOptions) -> TrainingReport:
    """Train the critic of LEIC to distinguish human captions of an image from others.

    Three per cent of the photos are held out, chosen by their number. An interrupted run is resumed. With several runs
    each seed has a folder in `--output`.

    **Examples**

    `capmeter train leic coco=pycocoevalcap --exclusions training_exclusions.json.gz --machine machine.jsonl.gz
    --samples samples.jsonl.gz -o leic/`

    `capmeter train leic flickr30k=flickr30k_references.jsonl.gz --exclusions training_exclusions.json.gz
    --preset flickr8k -o leic-flickr/`
    """
    device = options.critic.run.start()
    from capmeter.core.settings import Settings
    from capmeter_research.common.loop import run_with_seeds
    from capmeter_research.common.word_tables import find_vectors
    from capmeter_research.papers.leic.training.training import train_critic

    recipe = options.critic.recipe
    if recipe.sees_image and options.features is None:
        raise InputError(f"context={recipe.context} needs --features, or choose --context reference")
    images = options.images.read()
    vectors = None if options.vectors is None else find_vectors(options.vectors, Settings())

    def train_seed(seed: int, folder: Path) -> tuple[Mapping[str, float], float]:
        checkpoint = train_critic(
            images.learned,
            images.held_out,
            replace(recipe, seed=seed),
            folder,
            data=images.data,
            features=options.features,
            vectors=vectors,
            device=device,
        )
        report_progress(f"critic: {checkpoint.label}")
        return checkpoint.scores, 0.0

    scores = run_with_seeds(train_seed, options.runs, recipe.seed, options.output, keep_best=False)
    several = options.runs > 1
    table_rows = [
        [source_name, f"{mean:.4f}", f"{std:.4f}" if several else "-"] for source_name, (mean, std) in scores.items()
    ]
    held_out = len(images.held_out)
    title = f"held-out images: s(Θ, D) of human captions and of each source of negatives ({held_out:,} images)"
    columns = ["captions", "s", f"deviation over {options.runs} runs"]
    data = {source_name: {"mean": mean, "deviation": std} for source_name, (mean, std) in scores.items()}
    return TrainingReport(Table(title, columns, table_rows, [False, True, True]), data)
