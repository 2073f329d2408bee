"""The training of a caption writer, from files of captions to its checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from capmeter.core.errors import InputError
from capmeter.core.options import option
from capmeter.report.tables import Table
from capmeter_research.common.options import (
    CpuRunOptions,
    RunOptions,
    TrainingReport,
    corpora_argument,
    exclusions_option,
    output_option,
    read_corpora,
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
    run: RunOptions = CpuRunOptions()

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
            seed=self.run.seed,
        )


def train(options: WriterOptions) -> TrainingReport:
    """Train the caption writer, which reads captions of a photo and writes a machine-like caption of it.

    Benchmark photos are left out; three per cent of the others are held out. An interrupted run is resumed.

    **Example**

    `capmeter train writer coco=pycocoevalcap flickr30k=flickr30k_references.jsonl.gz
    --exclusions training_exclusions.json.gz --output writer/`
    """
    device = options.run.start()
    from capmeter_research.networks.caption_writer.training import train_writer
    from capmeter_research.networks.caption_writer.writer import Writer

    corpora = read_corpora(options.corpora, options.exclusions)
    scores = train_writer(corpora, options.recipe, options.output, device=device, threads=options.run.threads)
    label = Writer(options.output).label
    score_row = [label, *(f"{value:.3f}" for value in scores.values())]
    return TrainingReport(
        Table("held-out captions, per subword", ["writer", *scores], [score_row], [False] + [True] * len(scores)),
        {"writer": label, "held_out": dict(scores)},
    )
