"""Options that several recipes share, and the data that they name.

A network declares its options as a dataclass beside the function that trains it (`lceval/training/train.py`), which
reads the data, overrides the recipe, and returns a `TrainingReport`. `capmeter train` makes commands of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from capmeter.core.checkpoints import TrainingData, hash_texts
from capmeter.core.messages import format_count
from capmeter.core.options import argument, option
from capmeter.core.progress import report_progress
from capmeter.core.settings import Settings
from capmeter.report.tables import Table
from capmeter_research.common.benchmark_exclusions import read_exclusions
from capmeter_research.common.corpus import PhotoCorpus, read_corpus, split_source_file
from capmeter_research.common.recipe import PRECISIONS, Recipe

AnyRecipe = TypeVar("AnyRecipe", bound=Recipe)


@dataclass(frozen=True, eq=False)
class TrainingReport:
    """What a training ended with, as its command shows it."""

    table: Table  # of scores
    data: dict[str, Any]  # the same as JSON values
    messages: tuple[str, ...] = ()  # what was written, a line each


def corpora_argument(sources: str = "coco, flickr30k, or another name for photos of your own") -> Any:
    """Files of human captions."""
    help = (
        f"Human captions of photos in any format, as SOURCE=FILE ({sources}). `coco=pycocoevalcap` reads the captions "
        "bundled with the installed pycocoevalcap."
    )
    return argument(help=help, metavar="SOURCE=FILE...")


def exclusions_option() -> Any:
    """The file of benchmark photos."""
    return option(None, "Benchmark photos to exclude from training (gzipped JSON); without it a warning.")


def output_option(help: str = "Write the checkpoint and the log to this folder.", default: Any = ...) -> Any:
    """The folder of the checkpoint."""
    return option(default, help, "--output", "-o")


def seed_option() -> Any:
    """The seed of everything random in a command."""
    return option(0, "Seed of all random numbers in this command.", minimum=0)


def epochs_option(default: Any = None) -> Any:
    """Epochs; by default the recipe's."""
    return option(default, "Number of epochs.", minimum=1)


def steps_option() -> Any:
    """Steps per epoch; by default the recipe's."""
    return option(None, "Steps per epoch.", minimum=1)


def runs_option() -> Any:
    """Number of seeds."""
    return option(1, "Train with this many seeds; shows mean and standard deviation.", minimum=1)


def precision_option(default: str | None = "float32", note: str = "") -> Any:
    """Precision in training."""
    return option(default, f"Precision of the forward pass in training{note}.", choices=PRECISIONS)


def device_option(default: str | None = None) -> Any:
    """The device; None: a GPU where there is one, unless the environment names another."""
    note = "" if default else " (default: a GPU where there is one)"
    return option(default, f"Where neural networks run: cpu, cuda, cuda:1 or mps{note}.")


def workers_option(help: str = "Data-loading workers.") -> Any:
    """Processes that prepare examples."""
    return option(1, help, minimum=1, maximum=256)


def device_settings(device: str | None) -> Settings:
    """The settings of the environment, on this device if one is named."""
    return Settings() if device is None else Settings(device=device)


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Where a training runs, and its seed."""

    threads: int = option(1, "Number of threads; another number gives slightly different weights.", minimum=1)
    device: str | None = device_option()
    seed: int = seed_option()

    def start(self) -> str:
        """Requires torch and sets its number of threads.

        Returns:
            The name of the device.

        Raises:
            MissingBackend: torch is not installed.
        """
        from capmeter.encoders.handle import require_neural

        require_neural()
        import torch

        from capmeter.encoders.batches import device_name

        torch.set_num_threads(self.threads)
        return device_name(self.settings.device)

    @property
    def settings(self) -> Settings:
        """The settings of the environment, on this device if one is named."""
        return device_settings(self.device)


@dataclass(frozen=True, kw_only=True)
class CpuRunOptions(RunOptions):
    """Where a training runs, by default on the CPU, where it can be repeated bit for bit."""

    device: str | None = device_option("cpu")


def override(recipe: AnyRecipe, options: Any, *names: str, **values: Any) -> AnyRecipe:
    """A recipe with some fields replaced; None leaves a field as it is.

    Args:
        recipe: a dataclass.
        options: with a field for each of `names`.
        names: options whose values replace those of the recipe.
        values: further values by field.
    """
    values |= {option_name: getattr(options, option_name) for option_name in names}
    return replace(recipe, **{field_name: value for field_name, value in values.items() if value is not None})


def read_corpora(files: Iterable[str], exclusions: Path | None, sources: Iterable[str] = ()) -> list[PhotoCorpus]:
    """The photos of each `SOURCE=FILE` that are in no benchmark; reports their numbers.

    Args:
        files: captions of photos.
        exclusions: the file of benchmark photos, if there is one.
        sources: further sources, none of whose photos are in a benchmark.
    """
    excluded_photos = read_exclusions(exclusions) | {source: frozenset[str]() for source in sources}
    corpora = []
    for source, file in map(split_source_file, files):
        corpus = read_corpus(source, file, excluded_photos)
        left_out = format_count(corpus.excluded, "benchmark photo was", "benchmark photos were")
        report_progress(f"{source}: {format_count(len(corpus.photos), 'photo')}; {left_out} left out")
        corpora.append(corpus)
    return corpora


def describe_file(path: Path, examples: int, texts: Iterable[str] = ()) -> TrainingData:
    """A file of training data, as checkpoints name it.

    Args:
        path: the file.
        examples: their number.
        texts: those that were trained on, by which they are recognised in benchmarks.
    """
    return TrainingData(path.name, hashlib.sha256(path.read_bytes()).hexdigest(), examples, hash_texts(texts))
