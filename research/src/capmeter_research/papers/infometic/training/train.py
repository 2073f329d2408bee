"""The training of a regression head on a joint encoder, from a file of rated captions to its checkpoint."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capmeter.captions.caption_set import CaptionSet
from capmeter.captions.load import load
from capmeter.captions.load_options import LoadOptions, OnMissing
from capmeter.core.checkpoints import TrainingData
from capmeter.core.errors import InputError
from capmeter.core.options import argument, option, option_group
from capmeter.core.progress import report_progress
from capmeter_research.common.options import (
    describe_file,
    device_option,
    device_settings,
    output_option,
    override,
    require_torch,
    seed_option,
    threads_option,
)
from capmeter_research.papers.infometic.training.recipe import InfoMetICRecipe, RegressorRecipe

if TYPE_CHECKING:
    from capmeter_research.common.loop import Outcome


@dataclass(frozen=True, kw_only=True)
class RegressorOptions:
    """The rated captions, the encoder, and the settings of the run."""

    rows: Path | None = argument(None, "Captions with human scores, and references, pictures or both.", metavar="FILE")
    output: Path = output_option("The folder of the checkpoint and the log.")
    encoder: str | None = option(
        None,
        "The joint encoder, or for text the text encoder: an alias, a hub id or a folder (default: clip, minilm).",
        "--encoder",
        "-e",
    )
    text_encoder: str = option("", "A text encoder whose sentence vectors are also inputs, such as minilm.")
    shape: str | None = option(
        None,
        "polos (with references), pair (without), text (references only), or infometic (without; also judges words and "
        "regions); default: polos, or text where no caption names a picture.",
        choices=("polos", "pair", "text", "infometic"),
    )
    scenes: int = option(0, "Train on this many synthetic scenes instead of FILE.", minimum=0)
    tune: float = option(
        0.0,
        "Also fine-tune the encoder, with this multiple of the head's learning rate, such as 0.1.",
        minimum=0,
        maximum=1,
    )
    load: LoadOptions = option_group(LoadOptions, "images_root")
    epochs: int | None = option(None, "Number of epochs (default: 60; 20 for infometic).", minimum=1)
    threads: int = threads_option()
    device: str | None = device_option()
    seed: int = seed_option()

    def __post_init__(self) -> None:
        if (self.rows is None) == (self.scenes == 0):
            raise InputError("expected either a file of captions, or --scenes with a number of scenes")


def train(options: RegressorOptions) -> Outcome:
    """Trains a head, and writes its checkpoint into the folder. An interrupted run is resumed.

    Raises:
        InputError: the captions cannot be read.
        MissingBackend: torch is not installed.
    """
    require_torch(options.threads)
    from capmeter.encoders.batches import device_name
    from capmeter_research.papers.infometic.inputs import InputSpec
    from capmeter_research.papers.infometic.training.run import train_regressor

    settings = device_settings(options.device)
    recipe = InfoMetICRecipe() if options.shape == "infometic" else RegressorRecipe()
    with tempfile.TemporaryDirectory() as folder:
        captions, labels, data = _read_captions(options, Path(folder))
        shape = options.shape or ("polos" if (captions.image_indices >= 0).any() else "text")
        if options.shape is None and shape == "text":
            report_progress("no caption names a picture: the head reads the texts alone (--shape text)")
        if shape == "text" and options.text_encoder:
            raise InputError("--text-encoder is for heads that read pictures; with --shape text name it with --encoder")
        encoder = options.encoder or ("minilm" if shape == "text" else "clip")
        inputs = InputSpec(shape, encoder, text_encoder=options.text_encoder)  # type: ignore[arg-type]
        return train_regressor(
            captions,
            inputs,
            override(recipe, options, "epochs", "tune", "seed"),
            options.output,
            labels=labels,
            data=(data,),
            device=device_name(settings.device),
            settings=settings,
        )


def _read_captions(options: RegressorOptions, folder: Path) -> tuple[CaptionSet, Mapping[str, Any], TrainingData]:
    """The captions, the labels of their words and regions where they are known, and their source."""
    from capmeter_research.papers.infometic.training.infometic.labels import labels_of_world
    from capmeter_research.synthetic_scenes.scenes.world import World

    if options.rows is not None:
        on_missing: OnMissing = "error" if options.shape in (None, "polos", "text") else "keep"
        captions = load(options.rows, options=options.load, on_missing=on_missing)
        return captions, {}, describe_file(options.rows, len(captions), captions.pool.sentences)
    world = World(split="train", size=options.scenes, seed=options.seed)
    for scene in world:
        scene.render().save(folder / f"{scene.id}.png")
    captions = world.captions(str(folder))
    labels = labels_of_world(world) if options.shape == "infometic" else {}
    world_name = str(world)
    return captions, labels, TrainingData(world_name, hashlib.sha256(world_name.encode()).hexdigest(), len(captions))
