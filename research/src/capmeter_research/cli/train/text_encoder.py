"""`capmeter train text-encoder`: adapts a text encoder to captions."""

from __future__ import annotations

from capmeter.cli.main import echo
from capmeter.cli.options import FormatOptions
from capmeter.cli.output import show
from capmeter.core.progress import show_progress
from capmeter.report.tables import Table
from capmeter_research.networks.text_encoder.train import TextEncoderOptions, train


def text_encoder(options: TextEncoderOptions, table: FormatOptions) -> None:
    """Adapt a text encoder to captions: captions of similar photos get similar vectors. No human judgment is used.

    The folder, or its name in the folder of weights, can then be used as an encoder. An interrupted run is resumed by
    the same command.

    `capmeter train text-encoder coco=pycocoevalcap flickr30k=flickr30k_references.jsonl.gz --exclusions
    training_exclusions.json.gz --output minilm-captions/`

    `capmeter score results.json -r references.json -m "sbert(encoder=minilm-captions,pooling=centroid)"`
    """
    with show_progress():
        scores = train(options).scores
    table_rows = [[score_name, f"{value:.1f}"] for score_name, value in scores.items()]
    data = {"scores": dict(scores), "checkpoint": str(options.output)}
    show(Table("held-out photos, %", ["nearest references", "captions"], table_rows, [False, True]), data, table.format)
    echo(f"encoder: {options.output}")
