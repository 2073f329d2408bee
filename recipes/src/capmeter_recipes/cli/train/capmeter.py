"""`capmeter train capmeter`: the toolkit's own metric, from captions alone, on any encoder."""

from __future__ import annotations

from capmeter.cli.main import echo
from capmeter.cli.options import FormatOptions
from capmeter.cli.output import show
from capmeter.core.progress import show_progress
from capmeter.report.tables import Table
from capmeter_recipes.capmeter.train import CapmeterOptions, train


def capmeter(options: CapmeterOptions, table: FormatOptions) -> None:
    """Train the metric `capmeter` on captions of similar photos and on perturbed captions.

    An interrupted run is resumed by the same command.

    `capmeter train capmeter coco=pycocoevalcap flickr30k=flickr30k_references.jsonl.gz --exclusions
    training_exclusions.json.gz --judgments flickr8k_cf.jsonl.gz --output capmeter/`
    """
    with show_progress():
        scores = train(options).scores
    rows = [[name, f"{100 * value:.1f}"] for name, value in scores.items()]
    title = "pairwise accuracy, caption vs. perturbed caption, held-out photos"
    data = {"scores": dict(scores), "checkpoint": str(options.output)}
    show(Table(title, ["kind", "%"], rows, [False, True]), data, table.format)
    echo(f"capmeter: {options.output}")
