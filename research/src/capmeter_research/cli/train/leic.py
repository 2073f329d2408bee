"""`capmeter train leic`."""

from __future__ import annotations

from capmeter.cli.options import FormatOptions
from capmeter.cli.output import show
from capmeter.core.progress import show_progress
from capmeter.report.tables import Table
from capmeter_research.papers.leic.training.train import LeicOptions, train


def leic(options: LeicOptions, table: FormatOptions) -> None:
    """Train the critic of LEIC to distinguish human captions of an image from others.

    Three per cent of the photos are held out, chosen by their number. An interrupted run is resumed. With several runs
    each seed has a folder in `--output`.

    **Examples**

    `capmeter train leic coco=pycocoevalcap --exclusions training_exclusions.json.gz --machine machine.jsonl.gz
    --samples samples.jsonl.gz -o leic/`

    `capmeter train leic flickr30k=flickr30k_references.jsonl.gz --exclusions training_exclusions.json.gz
    --preset flickr8k -o leic-flickr/`
    """
    with show_progress():
        held_out, scores = train(options)
    several = options.runs > 1
    table_rows = [
        [source_name, f"{mean:.4f}", f"{std:.4f}" if several else "-"] for source_name, (mean, std) in scores.items()
    ]
    title = f"held-out images: s(Θ, D) of human captions and of each source of negatives ({held_out:,} images)"
    columns = ["captions", "s", f"deviation over {options.runs} runs"]
    data = {source_name: {"mean": mean, "deviation": deviation} for source_name, (mean, deviation) in scores.items()}
    show(Table(title, columns, table_rows, [False, True, True]), data, table.format)
