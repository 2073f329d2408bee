"""The adaptation of a text encoder to captions, from files of captions to its checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from capmeter.core.messages import format_count
from capmeter.core.options import option
from capmeter.core.progress import report_progress
from capmeter_research.common.corpus import sample_splits
from capmeter_research.common.options import (
    corpora_argument,
    device_option,
    device_settings,
    epochs_option,
    exclusions_option,
    output_option,
    override,
    read_corpora,
    require_torch,
    seed_option,
    steps_option,
    threads_option,
)
from capmeter_research.networks.text_encoder.recipe import READING, EncoderRecipe

if TYPE_CHECKING:
    from capmeter.core.checkpoints import Checkpoint


@dataclass(frozen=True, kw_only=True)
class TextEncoderOptions:
    """The captions, the encoder, and the settings of the run."""

    captions: list[str] = corpora_argument()
    exclusions: Path | None = exclusions_option()
    output: Path = output_option("Write the adaptation, its checkpoint and its log to this folder.")
    encoder: str = option("minilm", "Alias, hub id or folder of the encoder.")
    photos: int = option(16000, "Number of training photos.", minimum=2)
    held_out: int = option(200, "Number of held-out photos for evaluation.", minimum=2)
    reads_references: bool = option(False, "Train an encoder that reads captions together with references.")
    rank: int | None = option(None, "Rank of the adaptation in training.", minimum=1)
    epochs: int | None = epochs_option()
    steps: int | None = steps_option()
    threads: int = threads_option()
    seed: int = seed_option()
    device: str | None = device_option()


def train(options: TextEncoderOptions) -> Checkpoint:
    """Trains an adaptation of an encoder, and writes its checkpoint into the folder. An interrupted run is resumed.

    Raises:
        InputError: there are fewer photos.
        MissingBackend: torch is not installed.
    """
    require_torch(options.threads)
    from capmeter.encoders import find_encoder
    from capmeter.encoders.batches import device_name
    from capmeter_research.networks.text_encoder.run import train_encoder

    settings = device_settings(options.device)
    corpora = read_corpora(options.captions, options.exclusions)
    photos, held_out = sample_splits(corpora, options.photos, options.held_out, options.seed)
    report_progress(f"{format_count(len(photos), 'training photo')}, {len(held_out):,} held out")
    return train_encoder(
        photos,
        held_out,
        override(READING if options.reads_references else EncoderRecipe(), options, "rank", "epochs", "steps", "seed"),
        options.output,
        data=[corpus.data for corpus in corpora],
        encoder=find_encoder(options.encoder),
        device=device_name(settings.device),
    )
