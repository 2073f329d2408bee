"""`capmeter scene-clip`: trains the CLIP of synthetic scenes, and measures it by CLIPScore on held-out scenes."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from capmeter_research.common.options import (
    RunOptions,
    epochs_option,
    output_option,
    override,
    precision_option,
    workers_option,
)
from capmeter_research.synthetic_scenes.evaluation import SWAPPED, TRUE, scene_outcomes
from capmeter_research.synthetic_scenes.scenes.errors import CONTENT_ERRORS
from capmeter_research.synthetic_scenes.scenes.world import World
from capmeter_research.synthetic_scenes.train import train_encoder

from capmeter.captions.caption_set import CaptionSet
from capmeter.cli.command import Application
from capmeter.cli.main import echo
from capmeter.cli.options import FormatOptions
from capmeter.cli.output import show
from capmeter.core.options import option
from capmeter.core.settings import Settings
from capmeter.metrics.vision.clipscore import ClipScore
from capmeter.report.tables import Table

app = Application()
SCENE_ENCODER = "encoder"
"""The folder, in that of a CLIP, of the scene encoder that is trained first."""


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
    workers: int = workers_option("Processes that render scenes.")
    evaluate: int = option(1000, "Held-out pictures to evaluate CLIPScore on afterwards; 0: none.", minimum=0)
    run: RunOptions = RunOptions()


@app.command()
def scene_clip(options: SceneClipOptions, table: FormatOptions) -> None:
    """Train a small CLIP from scratch on synthetic scenes, for `clipscore(encoder=FOLDER)`; no file is needed.

    The image encoder is trained first, as in `capmeter train scene-encoder`; then the text encoder is trained to give
    captions the vectors of their pictures. An interrupted run is resumed.

    **Examples**

    `capmeter scene-clip --output scene-clip/ --workers 2 --threads 2`

    `capmeter scene-clip --output scene-clip/ --encoder scene-encoder/ --epochs 10`
    """
    device, seed = options.run.start(), options.run.seed
    from capmeter_research.synthetic_scenes.encoder.encoder import load_world_encoder

    from scene_clip.examples import draw_examples
    from scene_clip.training import WorldClipRecipe, train_world_clip

    option_names = ("epochs", "pictures", "batch", "wrong", "lr", "width", "layers", "slot", "precision")
    recipe = override(WorldClipRecipe(), options, *option_names, seed=seed)
    if options.encoder is None:
        folder = options.output / SCENE_ENCODER
        train_encoder(options.encoder_pictures, options.encoder_epochs, folder, seed, device, options.workers)
    scene_encoder = load_world_encoder(options.encoder or str(options.output / SCENE_ENCODER), device)
    training_examples = draw_examples("train", options.pictures, recipe.captions, seed, options.workers)
    held_out = draw_examples("dev", recipe.held_out, 1, seed, options.workers)
    outcome = train_world_clip(training_examples, held_out, recipe, scene_encoder, options.output, device=device)
    scores: dict[str, Mapping[str, float]] = {"dev": dict(outcome.scores)}
    if options.evaluate:
        scores["test"] = clip_shares(str(options.output), World(split="test", size=options.evaluate, seed=seed))
    names = dict.fromkeys(name for each in scores.values() for name in each)
    table_rows = [[name, *(f"{each[name]:.3f}" if name in each else "" for each in scores.values())] for name in names]
    heads = ["share of pictures", *scores]
    show(
        Table("held-out pictures", heads, table_rows, [False] + [True] * len(scores)),
        {"epoch": outcome.epoch, **scores},
        table.format,
    )
    echo(f"CLIP of synthetic scenes: {options.output}")


def clip_shares(encoder: str, world: World, settings: Settings | None = None) -> dict[str, float]:
    """Shares of held-out pictures on which CLIPScore tells right from wrong, in [0, 1].

    `right above wrong`: the true caption scores above the same caption with a wrong content, over all kinds of errors;
    each kind alone; and `SWAPPED`.

    Args:
        encoder: name or folder of a CLIP.
        world: held-out scenes.
        settings: where it runs.
    """
    kinds = (*CONTENT_ERRORS, "hallucinated")
    metric = ClipScore(encoder=encoder, scale=1.0, clamp=False)
    with tempfile.TemporaryDirectory() as folder:
        for scene in world:
            scene.render().save(Path(folder) / f"{scene.id}.png")
        captions = CaptionSet.from_captions(
            each for each in world.captions(folder) if each.system == TRUE or each.system in kinds
        )
        _, outcomes = scene_outcomes(metric, captions, swap=True, settings=settings)
    right_above_wrong = np.concatenate([outcomes[kind] for kind in kinds if kind in outcomes])
    shares = {kind: float(np.mean(outcomes[kind])) for kind in (SWAPPED, *kinds) if kind in outcomes}
    return {"right above wrong": float(right_above_wrong.mean()), **shares}
