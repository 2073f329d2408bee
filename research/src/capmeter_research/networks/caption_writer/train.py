"""The training of a caption writer, from files of captions to its checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from capmeter.core.errors import InputError
from capmeter.core.options import option
from capmeter_research.common.options import (
    corpora_argument,
    device_option,
    exclusions_option,
    output_option,
    read_corpora,
    require_torch,
    seed_option,
    threads_option,
)
from capmeter_research.networks.caption_writer.recipe import STEPS_PER_EPOCH, STRENGTHS, WriterRecipe


def _check_steps(steps: int) -> None:
    if steps % STEPS_PER_EPOCH:
        raise InputError(f"{steps} is not a multiple of {STEPS_PER_EPOCH}")


def _check_width(width: int) -> None:
    if width % 32:
        raise InputError(f"{width} is not a multiple of 32")


@dataclass(frozen=True, kw_only=True)
class WriterOptions:
    """The captions, and the settings of the run."""

    corpora: list[str] = corpora_argument()
    exclusions: Path | None = exclusions_option()
    output: Path = output_option("Output folder for the model and its early checkpoints.")
    steps: int = option(3000, "Number of training steps, in hundreds.", minimum=100, check=_check_steps)
    batch: int = option(64, "Captions per step.", minimum=1)
    photos: int = option(0, "Number of training photos, sampled by the seed (0: all).", minimum=0)
    pieces: int = option(3000, "Number of subwords.", minimum=300)
    width: int = option(128, "Width of the network, a multiple of 32.", minimum=32, check=_check_width)
    strength: list[int] = option(
        list(STRENGTHS), "Also keep the weights after this many steps, in hundreds; repeatable."
    )
    threads: int = threads_option()
    device: str = device_option("cpu")
    seed: int = seed_option()

    @property
    def recipe(self) -> WriterRecipe:
        """The settings of the run."""
        return WriterRecipe(
            epochs=self.steps // STEPS_PER_EPOCH,
            batch=self.batch,
            photos=self.photos,
            pieces=self.pieces,
            width=self.width,
            hidden=2 * self.width,
            heads=self.width // 32,
            strengths=tuple(self.strength),
            seed=self.seed,
        )


def train(options: WriterOptions) -> tuple[str, Mapping[str, float]]:
    """Trains a writer, and writes its checkpoints into the folder. An interrupted run is resumed.

    Returns:
        The writer's label, and its scores on held-out captions, per subword.

    Raises:
        InputError: the captions cannot be read.
        MissingBackend: torch is not installed.
    """
    require_torch()
    from capmeter.encoders.batches import device_name
    from capmeter_research.networks.caption_writer.run import train_writer
    from capmeter_research.networks.caption_writer.writer import Writer

    corpora = read_corpora(options.corpora, options.exclusions)
    device = device_name(options.device)
    scores = train_writer(corpora, options.recipe, options.output, device=device, threads=options.threads)
    return Writer(options.output).label, scores
