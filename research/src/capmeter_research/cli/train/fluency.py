"""`capmeter train fluency`."""

from __future__ import annotations

from capmeter.cli.main import echo
from capmeter.cli.options import FormatOptions
from capmeter.cli.output import show
from capmeter.core.progress import show_progress
from capmeter.report.tables import Table
from capmeter_research.networks.fluency.train import FluencyOptions, train


def fluency(options: FluencyOptions, table: FormatOptions) -> None:
    """Train the detector of fluency errors, which FENSE and SPIDEr-FL penalise, on captions with errors made in them.

    Half of the captions are those of photos, half are captions of sounds that a small grammar writes; `--also` adds
    files of human captions of sounds. Takes minutes.

    **Examples**

    `capmeter train fluency coco=pycocoevalcap --exclusions training_exclusions.json.gz --output fluency/`

    `capmeter train fluency coco=pycocoevalcap --also clotho_captions_development.csv --output fluency/`
    """
    with show_progress():
        detector, scores = train(options)
    table_rows = [[source_name, 100 * value] for source_name, value in scores.items()]
    content = Table("held-out captions, %", ["captions", "area under the ROC curve"], table_rows, [False, True])
    show(content, {"detector": detector.label, "held_out": scores}, table.format)
    echo(f"detector: {detector.label}")
