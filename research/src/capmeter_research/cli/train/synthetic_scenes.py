"""`capmeter train scene-encoder`, `attribute-reader` and `scene-clip`: the encoders of synthetic scenes."""

from __future__ import annotations

from collections.abc import Mapping

from capmeter.cli.main import echo
from capmeter.cli.options import FormatOptions
from capmeter.cli.output import show
from capmeter.core.progress import show_progress
from capmeter.report.tables import Table
from capmeter_research.synthetic_scenes.train import (
    AttributeReaderOptions,
    SceneClipOptions,
    SceneEncoderOptions,
    train_attribute_reader,
    train_scene_clip,
    train_scene_encoder,
)


def scene_encoder(options: SceneEncoderOptions, table: FormatOptions) -> None:
    """Train the encoder of pictures and regions of synthetic scenes; no file is needed.

    An interrupted run is resumed. The defaults take about twenty minutes on one core, and give the bundled encoder.

    **Examples**

    `capmeter train scene-encoder --output scene-encoder/`

    `capmeter train scene-encoder --output large/ --pictures 40000 --epochs 16 --device cuda --workers 8`
    """
    with show_progress():
        outcome = train_scene_encoder(options)
    _show_scores(outcome.epoch, outcome.scores, table.format)
    echo(f"scene encoder: {options.output}")


def attribute_reader(options: AttributeReaderOptions, table: FormatOptions) -> None:
    """Train the reader that turns a picture of a synthetic scene into a table of its objects; no file is needed.

    Its table is the picture's feature for critics of synthetic scenes: `leic(checkpoint=FOLDER,features=world-reader)`.
    It starts from the scene encoder, which is fine-tuned. An interrupted run is resumed. The defaults take about half
    an hour on one core, and give the bundled reader.

    **Examples**

    `capmeter train attribute-reader --output attribute-reader/`

    `capmeter train attribute-reader --encoder scene-encoder/ --output reader/ --pictures 40000`
    """
    with show_progress():
        outcome = train_attribute_reader(options)
    _show_scores(outcome.epoch, outcome.scores, table.format)
    echo(f"attribute reader: {options.output}")


def scene_clip(options: SceneClipOptions, table: FormatOptions) -> None:
    """Train a small CLIP from scratch on synthetic scenes, for `clipscore(encoder=FOLDER)`; no file is needed.

    The image encoder is trained first, as in `capmeter train scene-encoder`; then the text encoder is trained to give
    captions the vectors of their pictures. An interrupted run is resumed.

    **Examples**

    `capmeter train scene-clip --output scene-clip/ --workers 2 --threads 2`

    `capmeter train scene-clip --output scene-clip/ --encoder scene-encoder/ --epochs 10`
    """
    with show_progress():
        outcome, scores = train_scene_clip(options)
    names = dict.fromkeys(name for each in scores.values() for name in each)
    table_rows = [[name, *(f"{each[name]:.3f}" if name in each else "" for each in scores.values())] for name in names]
    content = Table("held-out pictures", ["share of pictures", *scores], table_rows, [False] + [True] * len(scores))
    show(content, {"epoch": outcome.epoch, **scores}, table.format)
    echo(f"CLIP of synthetic scenes: {options.output}")


def _show_scores(epoch: int, scores: Mapping[str, float], format: str) -> None:
    table_rows = [[share_name, value] for share_name, value in scores.items()]
    content = Table("held-out pictures", ["share right", "value"], table_rows, [False, True])
    show(content, {"epoch": epoch, "held_out": dict(scores)}, format)
