"""`capmeter train capmeter`: the toolkit's own metric, from captions alone, on any encoder; and its large size."""

from __future__ import annotations

from capmeter.cli.main import echo
from capmeter.cli.options import FormatOptions
from capmeter.cli.output import show
from capmeter.core.progress import show_progress
from capmeter.report.tables import Table
from capmeter_research.networks.own_metric.larger import LargerOptions
from capmeter_research.networks.own_metric.larger import train as train_larger
from capmeter_research.networks.own_metric.train import CapmeterOptions, train


def capmeter(options: CapmeterOptions, table: FormatOptions) -> None:
    """Train the metric `capmeter` on captions of similar photos and on perturbed captions.

    An interrupted run is resumed by the same command.

    `capmeter train capmeter coco=pycocoevalcap flickr30k=flickr30k_references.jsonl.gz --exclusions
    training_exclusions.json.gz --judgments flickr8k_cf.jsonl.gz --output capmeter/`
    """
    with show_progress():
        scores = train(options).scores
    table_rows = [[score_name, f"{100 * value:.1f}"] for score_name, value in scores.items()]
    title = "pairwise accuracy, caption vs. perturbed caption, held-out photos"
    data = {"scores": dict(scores), "checkpoint": str(options.output)}
    show(Table(title, ["kind", "%"], table_rows, [False, True]), data, table.format)
    echo(f"capmeter: {options.output}")


def capmeter_large(options: LargerOptions, table: FormatOptions) -> None:
    """Put a larger encoder beside a trained `capmeter`: selects the weight of its logit and calibrates the sum.

    The encoder is adapted before, by `capmeter train text-encoder --reads-references`.

    `capmeter train capmeter-large coco=pycocoevalcap flickr30k=flickr30k_references.jsonl.gz --exclusions
    training_exclusions.json.gz --judgments flickr8k_cf.jsonl.gz --output capmeter-large/`

    `capmeter score results.json -r references.json -m "capmeter(size=large)"`
    """
    with show_progress():
        checkpoint = train_larger(options)
    table_rows = [[score_name, f"{100 * value:.1f}"] for score_name, value in checkpoint.scores.items()]
    title = "pairwise accuracy, caption vs. perturbed caption, held-out photos; Kendall's τ by weight"
    data = {"scores": dict(checkpoint.scores), "weight": checkpoint.parameters["weight"]}
    show(Table(title, ["kind", "%"], table_rows, [False, True]), data, table.format)
    echo(f"weight of the larger encoder's logit: {checkpoint.parameters['weight']:g}")
    echo(f"capmeter(size=large): {options.output}")
