"""`capmeter train writer`."""

from __future__ import annotations

from capmeter.cli.options import FormatOptions
from capmeter.cli.output import show
from capmeter.core.progress import show_progress
from capmeter.report.tables import Table
from capmeter_research.networks.caption_writer.train import WriterOptions, train


def writer(options: WriterOptions, table: FormatOptions) -> None:
    """Train the caption writer, which reads captions of a photo and writes a machine-like caption of it.

    Benchmark photos are left out; three per cent of the others are held out. An interrupted run is resumed.

    **Example**

    `capmeter train writer coco=pycocoevalcap flickr30k=flickr30k_references.jsonl.gz
    --exclusions training_exclusions.json.gz --output writer/`
    """
    with show_progress():
        label, scores = train(options)
    score_row = [label, *(f"{value:.3f}" for value in scores.values())]
    numeric = [False, *(True for _ in scores)]
    content = Table("held-out captions, per subword", ["writer", *scores], [score_row], numeric)
    show(content, {"writer": label, "held_out": dict(scores)}, table.format)
