"""The training of the encoders of synthetic scenes: no file is needed, all scenes are generated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from capmeter.core.options import option
from capmeter.core.settings import Settings
from capmeter_research.common.options import (
    device_option,
    epochs_option,
    output_option,
    override,
    precision_option,
    require_torch,
    seed_option,
    threads_option,
    workers_option,
)
from capmeter_research.synthetic_scenes.clip.recipe import WorldClipRecipe

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
    threads: int = threads_option()
    device: str | None = device_option()
    seed: int = seed_option()


@dataclass(frozen=True, kw_only=True)
class AttributeReaderOptions:
    """The encoder, the number of scenes, and the settings of the run."""

    output: Path = output_option("The folder of the checkpoint and the log.")
    encoder: str = option("world-encoder", "The scene encoder to start from: a name or folder.")
    pictures: int = option(24_000, "Number of training pictures.", minimum=1)
    epochs: int = epochs_option(6)
    workers: int = workers_option(_RENDERING)
    threads: int = threads_option()
    device: str = device_option("cpu")
    seed: int = seed_option()


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
    threads: int = threads_option()
    evaluate: int = option(1000, "Held-out pictures to evaluate CLIPScore on afterwards; 0: none.", minimum=0)
    device: str | None = device_option()
    seed: int = seed_option()


def train_scene_encoder(options: SceneEncoderOptions) -> Outcome:
    """Trains the encoder of pictures and regions, and writes its checkpoint into the folder."""
    require_torch(options.threads)
    return _train_encoder(options.pictures, options.epochs, options.output, options)


def train_attribute_reader(options: AttributeReaderOptions) -> Outcome:
    """Trains the reader of attributes, and writes its checkpoint into the folder."""
    require_torch(options.threads)
    from capmeter.encoders.batches import device_name
    from capmeter_research.synthetic_scenes.attribute_reader.training import WorldReaderRecipe, train_world_reader
    from capmeter_research.synthetic_scenes.encoder.encoder import load_world_encoder
    from capmeter_research.synthetic_scenes.encoder.examples import draw_examples

    recipe = WorldReaderRecipe(epochs=options.epochs, pictures=options.pictures, seed=options.seed)
    scene_encoder = load_world_encoder(options.encoder, device_name(options.device))
    training_examples = draw_examples("train", options.pictures, options.seed, options.workers)
    held_out = draw_examples("dev", recipe.held_out, options.seed, options.workers)
    return train_world_reader(scene_encoder, training_examples, held_out, recipe, options.output)


def train_scene_clip(options: SceneClipOptions) -> tuple[Outcome, dict[str, Mapping[str, float]]]:
    """Trains a CLIP, and writes it into the folder.

    Returns:
        The outcome of the run, and the shares of pictures that are right by split (`dev`, and `test` if `evaluate`).
    """
    require_torch(options.threads)
    from capmeter_research.synthetic_scenes.clip.evaluation import shares_right
    from capmeter_research.synthetic_scenes.clip.examples import draw_examples
    from capmeter_research.synthetic_scenes.clip.run import train_world_clip
    from capmeter_research.synthetic_scenes.encoder.encoder import load_world_encoder
    from capmeter_research.synthetic_scenes.scenes.world import World

    option_names = ("epochs", "pictures", "batch", "wrong", "lr", "width", "layers", "slot", "precision", "seed")
    recipe = override(WorldClipRecipe(), options, *option_names)
    if options.encoder is None:
        _train_encoder(options.encoder_pictures, options.encoder_epochs, options.output / SCENE_ENCODER, options)
    device = _device(options.device)
    scene_encoder = load_world_encoder(options.encoder or str(options.output / SCENE_ENCODER), device)
    training_examples = draw_examples("train", options.pictures, recipe.captions, options.seed, options.workers)
    held_out = draw_examples("dev", recipe.held_out, 1, options.seed, options.workers)
    outcome = train_world_clip(training_examples, held_out, recipe, scene_encoder, options.output, device=device)
    scores: dict[str, Mapping[str, float]] = {"dev": dict(outcome.scores)}
    if options.evaluate:
        test_world = World(split="test", size=options.evaluate, seed=options.seed)
        scores["test"] = shares_right(str(options.output), test_world)
    return outcome, scores


def _train_encoder(
    pictures: int, epochs: int, folder: Path, options: SceneEncoderOptions | SceneClipOptions
) -> Outcome:
    from capmeter_research.synthetic_scenes.encoder.examples import draw_examples
    from capmeter_research.synthetic_scenes.encoder.training import WorldEncoderRecipe, train_world_encoder

    recipe = WorldEncoderRecipe(pictures=pictures, epochs=epochs, seed=options.seed)
    training_examples = draw_examples("train", pictures, options.seed, options.workers)
    held_out = draw_examples("dev", recipe.held_out, options.seed, options.workers)
    return train_world_encoder(training_examples, held_out, recipe, folder, device=_device(options.device))


def _device(name: str | None) -> str:
    from capmeter.encoders.batches import device_name

    return device_name(name or Settings().device)
