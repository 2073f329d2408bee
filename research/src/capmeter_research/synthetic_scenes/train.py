"""The training of the encoders of synthetic scenes: no file is needed, all scenes are generated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from capmeter.core.options import option
from capmeter.report.tables import Table
from capmeter_research.common.options import (
    CpuRunOptions,
    RunOptions,
    TrainingReport,
    epochs_option,
    output_option,
    override,
    precision_option,
    workers_option,
)

if TYPE_CHECKING:
    from capmeter_research.common.loop import Outcome

SCENE_ENCODER = "encoder"
"""The folder, in that of a CLIP, of the scene encoder that is trained first."""
_RENDERING = "Processes that render scenes."


@dataclass(frozen=True, kw_only=True)
class SceneEncoderOptions:
    """The number of scenes, and the settings of the run."""

    output: Path = output_option("The folder of the checkpoint and the log.")
    pictures: int = option(10_000, "Number of training pictures.", minimum=1)
    epochs: int = epochs_option(12)
    workers: int = workers_option(_RENDERING)
    run: RunOptions = RunOptions()


@dataclass(frozen=True, kw_only=True)
class AttributeReaderOptions:
    """The encoder, the number of scenes, and the settings of the run."""

    output: Path = output_option("The folder of the checkpoint and the log.")
    encoder: str = option("world-encoder", "The scene encoder to start from: a name or folder.")
    pictures: int = option(24_000, "Number of training pictures.", minimum=1)
    epochs: int = epochs_option(6)
    workers: int = workers_option(_RENDERING)
    run: RunOptions = CpuRunOptions()


@dataclass(frozen=True, kw_only=True)
class SceneClipOptions:
    """The numbers of scenes, and the settings of the run."""

    output: Path = output_option("The folder of the model and the log.")
    encoder: str | None = option(
        None, "The scene encoder: a name or folder. Without one, a scene encoder is trained first."
    )
    pictures: int = option(20_000, "Number of training pictures.", minimum=2)
    epochs: int = epochs_option(8)
    batch: int = option(64, "Pictures per step.", minimum=2)
    wrong: int = option(4, "Hard negatives per caption.", "--hard-negatives", minimum=0, maximum=8)
    lr: float = option(2e-3, "Highest learning rate.", minimum=1e-6)
    width: int = option(128, "Text-encoder width.", minimum=32)
    layers: int = option(3, "Text-encoder layers.", minimum=1)
    slot: int = option(32, "Width of the features' slots, one for each category of objects.", minimum=4)
    encoder_pictures: int = option(10_000, "Number of training pictures of the scene encoder.", minimum=2)
    encoder_epochs: int = option(8, "Epochs of the scene encoder.", minimum=1)
    precision: str = precision_option()
    workers: int = workers_option(_RENDERING)
    evaluate: int = option(1000, "Held-out pictures to evaluate CLIPScore on afterwards; 0: none.", minimum=0)
    run: RunOptions = RunOptions()


def train_scene_encoder(options: SceneEncoderOptions) -> TrainingReport:
    """Train the encoder of pictures and regions of synthetic scenes; no file is needed.

    An interrupted run is resumed. The defaults take about twenty minutes on one core, and give the bundled encoder.

    **Examples**

    `capmeter train scene-encoder --output scene-encoder/`

    `capmeter train scene-encoder --output large/ --pictures 40000 --epochs 16 --device cuda --workers 8`
    """
    outcome = _train_encoder(options.pictures, options.epochs, options.output, options, options.run.start())
    return _report(outcome, f"scene encoder: {options.output}")


def train_attribute_reader(options: AttributeReaderOptions) -> TrainingReport:
    """Train the reader that turns a picture of a synthetic scene into a table of its objects; no file is needed.

    Its table is the picture's feature for critics of synthetic scenes: `leic(checkpoint=FOLDER,features=world-reader)`.
    It starts from the scene encoder, which is fine-tuned. An interrupted run is resumed. The defaults take about half
    an hour on one core, and give the bundled reader.

    **Examples**

    `capmeter train attribute-reader --output attribute-reader/`

    `capmeter train attribute-reader --encoder scene-encoder/ --output reader/ --pictures 40000`
    """
    device, seed = options.run.start(), options.run.seed
    from capmeter_research.synthetic_scenes.attribute_reader.training import WorldReaderRecipe, train_world_reader
    from capmeter_research.synthetic_scenes.encoder.encoder import load_world_encoder
    from capmeter_research.synthetic_scenes.encoder.examples import draw_examples

    recipe = WorldReaderRecipe(epochs=options.epochs, pictures=options.pictures, seed=seed)
    scene_encoder = load_world_encoder(options.encoder, device)
    training_examples = draw_examples("train", options.pictures, seed, options.workers)
    held_out = draw_examples("dev", recipe.held_out, seed, options.workers)
    outcome = train_world_reader(scene_encoder, training_examples, held_out, recipe, options.output)
    return _report(outcome, f"attribute reader: {options.output}")


def train_scene_clip(options: SceneClipOptions) -> TrainingReport:
    """Train a small CLIP from scratch on synthetic scenes, for `clipscore(encoder=FOLDER)`; no file is needed.

    The image encoder is trained first, as in `capmeter train scene-encoder`; then the text encoder is trained to give
    captions the vectors of their pictures. An interrupted run is resumed.

    **Examples**

    `capmeter train scene-clip --output scene-clip/ --workers 2 --threads 2`

    `capmeter train scene-clip --output scene-clip/ --encoder scene-encoder/ --epochs 10`
    """
    device, seed = options.run.start(), options.run.seed
    from capmeter_research.synthetic_scenes.clip.examples import draw_examples
    from capmeter_research.synthetic_scenes.clip.training import WorldClipRecipe, train_world_clip
    from capmeter_research.synthetic_scenes.encoder.encoder import load_world_encoder
    from capmeter_research.synthetic_scenes.evaluation import clip_shares
    from capmeter_research.synthetic_scenes.scenes.world import World

    option_names = ("epochs", "pictures", "batch", "wrong", "lr", "width", "layers", "slot", "precision")
    recipe = override(WorldClipRecipe(), options, *option_names, seed=seed)
    if options.encoder is None:
        folder = options.output / SCENE_ENCODER
        _train_encoder(options.encoder_pictures, options.encoder_epochs, folder, options, device)
    scene_encoder = load_world_encoder(options.encoder or str(options.output / SCENE_ENCODER), device)
    training_examples = draw_examples("train", options.pictures, recipe.captions, seed, options.workers)
    held_out = draw_examples("dev", recipe.held_out, 1, seed, options.workers)
    outcome = train_world_clip(training_examples, held_out, recipe, scene_encoder, options.output, device=device)
    scores: dict[str, Mapping[str, float]] = {"dev": dict(outcome.scores)}
    if options.evaluate:
        scores["test"] = clip_shares(str(options.output), World(split="test", size=options.evaluate, seed=seed))
    names = dict.fromkeys(name for each in scores.values() for name in each)
    table_rows = [[name, *(f"{each[name]:.3f}" if name in each else "" for each in scores.values())] for name in names]
    return TrainingReport(
        Table("held-out pictures", ["share of pictures", *scores], table_rows, [False] + [True] * len(scores)),
        {"epoch": outcome.epoch, **scores},
        (f"CLIP of synthetic scenes: {options.output}",),
    )


def _report(outcome: Outcome, message: str) -> TrainingReport:
    table_rows = [[share_name, value] for share_name, value in outcome.scores.items()]
    return TrainingReport(
        Table("held-out pictures", ["share right", "value"], table_rows, [False, True]),
        {"epoch": outcome.epoch, "held_out": dict(outcome.scores)},
        (message,),
    )


def _train_encoder(
    pictures: int, epochs: int, folder: Path, options: SceneEncoderOptions | SceneClipOptions, device: str
) -> Outcome:
    from capmeter_research.synthetic_scenes.encoder.examples import draw_examples
    from capmeter_research.synthetic_scenes.encoder.training import WorldEncoderRecipe, train_world_encoder

    seed = options.run.seed
    recipe = WorldEncoderRecipe(pictures=pictures, epochs=epochs, seed=seed)
    training_examples = draw_examples("train", pictures, seed, options.workers)
    held_out = draw_examples("dev", recipe.held_out, seed, options.workers)
    return train_world_encoder(training_examples, held_out, recipe, folder, device=device)
