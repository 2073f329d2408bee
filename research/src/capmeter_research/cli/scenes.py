"""`capmeter scenes`: synthetic scenes as files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

from capmeter.cli.command import Application
from capmeter.cli.output import write
from capmeter.core.messages import escape_controls
from capmeter.core.options import argument, option
from capmeter.core.progress import show_progress
from capmeter_research.common.options import seed_option

app = Application()


@dataclass(frozen=True, kw_only=True)
class SceneFileOptions:
    """The scenes, and the folder that they are written to."""

    folder: Path = argument(help="The folder to write.", metavar="FOLDER")
    split: str = option("test", "Dataset split (splits are disjoint).", choices=("train", "dev", "test"))
    size: int = option(1000, "Number of images.", minimum=1)
    pixels: int = option(96, "Width and height of the images.", minimum=32, maximum=2048)
    encoder: str | None = option(
        None, "Adds features of images and regions: a checkpoint of `capmeter train scene-encoder`."
    )
    seed: int = seed_option()


@app.command()
def scenes(options: SceneFileOptions) -> None:
    """Write synthetic scenes: images with known content, true captions, controlled errors, regions and facts.

    Every candidate comes with five references, and with the share of its facts that hold as its human score.

    **Examples**

    `capmeter scenes scenes/ --split test --size 500`

    `capmeter score scenes/captions.jsonl --metrics cider-d,meteor`
    """
    from capmeter_research.synthetic_scenes.encoder.encoder import load_world_encoder
    from capmeter_research.synthetic_scenes.scenes.folder import write_world
    from capmeter_research.synthetic_scenes.scenes.world import Split, World

    world = World(split=cast(Split, options.split), size=options.size, seed=options.seed, pixels=options.pixels)
    with show_progress():
        encoder = load_world_encoder(options.encoder) if options.encoder else None
        counts = write_world(world, options.folder, encoder=encoder)
    for content, count in counts.items():
        write(f"{escape_controls(str(options.folder))}: {count:,} {content} of {world}\n")
