"""`capmeter train regressor`."""

from __future__ import annotations

from capmeter.cli.main import echo
from capmeter.cli.options import FormatOptions
from capmeter.cli.output import show
from capmeter.core.progress import show_progress
from capmeter.report.tables import Table
from capmeter_research.papers.infometic.training.train import RegressorOptions, train


def regressor(options: RegressorOptions, table: FormatOptions) -> None:
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
    with show_progress():
        outcome = train(options)
    table_rows = [[score_name, f"{value:.4f}"] for score_name, value in outcome.scores.items()]
    data = {"epoch": outcome.epoch, "held_out": dict(outcome.scores)}
    show(Table("held-out images", ["score", "value"], table_rows, [False, True]), data, table.format)
    echo(f"regressor: {options.output}")
