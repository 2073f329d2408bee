"""The training of the encoders of synthetic scenes: no file is needed, all scenes are generated."""

from __future__ import annotations

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
    workers_option,
)

if TYPE_CHECKING:
    from capmeter_research.common.loop import Outcome

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


def train_scene_encoder(options: SceneEncoderOptions) -> TrainingReport:
    """Train the encoder of pictures and regions of synthetic scenes; no file is needed.

    An interrupted run is resumed. The defaults take about twenty minutes on one core, and give the bundled encoder.

    **Examples**

    `capmeter train scene-encoder --output scene-encoder/`

    `capmeter train scene-encoder --output large/ --pictures 40000 --epochs 16 --device cuda --workers 8`
    """
    device, seed = options.run.start(), options.run.seed
    outcome = train_encoder(options.pictures, options.epochs, options.output, seed, device, options.workers)
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


def _report(outcome: Outcome, message: str) -> TrainingReport:
    table_rows = [[share_name, value] for share_name, value in outcome.scores.items()]
    return TrainingReport(
        Table("held-out pictures", ["share right", "value"], table_rows, [False, True]),
        {"epoch": outcome.epoch, "held_out": dict(outcome.scores)},
        (message,),
    )


def train_encoder(pictures: int, epochs: int, folder: Path, seed: int, device: str, workers: int) -> Outcome:
    """Trains an encoder of pictures of synthetic scenes.

    Args:
        pictures, epochs: number of training pictures, and of epochs.
        folder: of the checkpoint and the log.
        seed: of all random numbers.
        device: of torch.
        workers: processes that render scenes.
    """
    from capmeter_research.synthetic_scenes.encoder.examples import draw_examples
    from capmeter_research.synthetic_scenes.encoder.training import WorldEncoderRecipe, train_world_encoder

    recipe = WorldEncoderRecipe(pictures=pictures, epochs=epochs, seed=seed)
    training_examples = draw_examples("train", pictures, seed, workers)
    held_out = draw_examples("dev", recipe.held_out, seed, workers)
    return train_world_encoder(training_examples, held_out, recipe, folder, device=device)
