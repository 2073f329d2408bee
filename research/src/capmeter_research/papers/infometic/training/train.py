"""The training of a regression head on a joint encoder, from a file of rated captions to its checkpoint."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capmeter.captions.caption_set import CaptionSet
from capmeter.captions.load import load
from capmeter.captions.load_options import LoadOptions, OnMissing
from capmeter.core.checkpoints import TrainingData
from capmeter.core.errors import InputError
from capmeter.core.options import argument, option, option_group
from capmeter.core.progress import report_progress
from capmeter.report.tables import Table
from capmeter_research.common.options import RunOptions, TrainingReport, describe_file, output_option, override
from capmeter_research.papers.infometic.training.recipe import InfoMetICRecipe, RegressorRecipe


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
    run: RunOptions = RunOptions()

    def __post_init__(self) -> None:
        if (self.rows is None) == (self.scenes == 0):
            raise InputError("expected either a file of captions, or --scenes with a number of scenes")


def train(options: RegressorOptions) -> TrainingReport:
    """Train a head on an encoder that predicts human scores, for `regressor(checkpoint=FOLDER)`.

    One image in ten, at least two, is held out and selects the epoch. With --tune the joint encoder is fine-tuned and
    becomes part of the checkpoint. The shape `infometic` also learns which words are wrong, where that is known: on
    synthetic scenes. Without pictures the head reads the texts alone, with the encoder `minilm` (the shape `text`).
    Do not evaluate on a benchmark whose judgments were trained on. An interrupted run is resumed.

    **Examples**

    `capmeter train regressor ratings.jsonl --images-root photos/ --encoder clip --text-encoder minilm -o head/`

    `capmeter train regressor ratings.jsonl --shape text -o head/`

    `capmeter train regressor --scenes 1000 --encoder scene-clip/ --output head/`

    `capmeter train regressor --scenes 1000 --encoder scene-clip/ --tune 0.1 --output head/`

    `capmeter train regressor --scenes 1000 --encoder scene-clip/ --shape infometic --output head/`
    """
    device = options.run.start()
    from capmeter_research.papers.infometic.inputs import InputSpec
    from capmeter_research.papers.infometic.training.training import train_regressor

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
        outcome = train_regressor(
            captions,
            inputs,
            override(recipe, options, "epochs", "tune", seed=options.run.seed),
            options.output,
            labels=labels,
            data=(data,),
            device=device,
            settings=options.run.settings,
        )
    table_rows = [[score_name, f"{value:.4f}"] for score_name, value in outcome.scores.items()]
    return TrainingReport(
        Table("held-out images", ["score", "value"], table_rows, [False, True]),
        {"epoch": outcome.epoch, "held_out": dict(outcome.scores)},
        (f"regressor: {options.output}",),
    )


def _read_captions(options: RegressorOptions, folder: Path) -> tuple[CaptionSet, Mapping[str, Any], TrainingData]:
    """The captions, the labels of their words and regions where they are known, and their source."""
    from capmeter_research.papers.infometic.training.labels import labels_of_world
    from capmeter_research.synthetic_scenes.scenes.world import World

    if options.rows is not None:
        on_missing: OnMissing = "error" if options.shape in (None, "polos", "text") else "keep"
        captions = load(options.rows, options=options.load, on_missing=on_missing)
        return captions, {}, describe_file(options.rows, len(captions), captions.pool.sentences)
    world = World(split="train", size=options.scenes, seed=options.run.seed)
    for scene in world:
        scene.render().save(folder / f"{scene.id}.png")
    captions = world.captions(str(folder))
    labels = labels_of_world(world) if options.shape == "infometic" else {}
    world_name = str(world)
    return captions, labels, TrainingData(world_name, hashlib.sha256(world_name.encode()).hexdigest(), len(captions))
