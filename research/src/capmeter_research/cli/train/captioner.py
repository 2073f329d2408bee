"""`capmeter train captioner`."""

from __future__ import annotations

from capmeter.cli.main import echo
from capmeter.cli.options import FormatOptions
from capmeter.cli.output import show
from capmeter.core.progress import show_progress
from capmeter.report.tables import Table
from capmeter_research.papers.subicap.train import CaptionerOptions, train


def captioner(options: CaptionerOptions, table: FormatOptions) -> None:
    """Train a captioner: by cross-entropy, then by the reward of a metric (self-critical training).

    SubICap's Transformer (six layers, eight heads, geometric attention), whose sizes are options, takes regions and
    writes subwords. `OUTPUT/cross-entropy` has the captioner after cross-entropy, OUTPUT the final one. An interrupted
    run is resumed. With `--scenes` a small one (two layers of width 128; minutes on one core) is trained on synthetic
    images, and evaluated on others.

    **Examples**

    `capmeter train captioner --scenes 3000 --output captioner/`

    `capmeter train captioner captions_train2014.json --regions coco/ --held-out captions_val2014.json
    --output captioner/ --device cuda --precision bfloat16`

    `capmeter train captioner --scenes 3000 --reward "mean(cider-d,bleu-4)" --output captioner/`
    """
    with show_progress():
        trained = train(options)
    scores, seconds = trained.scores, trained.seconds
    columns = list(next(iter(scores.values())))
    table_rows = [
        [stage_name, *(f"{stage_scores[measure_name]:.3f}" for measure_name in columns)]
        for stage_name, stage_scores in scores.items()
    ]
    numeric = [False, *(True for _ in columns)]
    data = {"captions": scores, "held_out": trained.held_out, "seconds": seconds}
    show(Table("captions of unseen images", ["captioner", *columns], table_rows, numeric), data, table.format)
    total_seconds = sum(seconds.values())
    if total_seconds:
        echo(f"the reward took {seconds['reward'] / total_seconds:.1%} of the time of self-critical steps")
    echo(f"captioner: {options.output}")
