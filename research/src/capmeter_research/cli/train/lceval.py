"""`capmeter train lceval`."""

from __future__ import annotations

from capmeter.cli.options import FormatOptions
from capmeter.cli.output import show
from capmeter.core.progress import show_progress
from capmeter.report.tables import Table
from capmeter_research.papers.lceval.training.train import LcEvalOptions, NetworkRun, train


def lceval(options: LcEvalOptions, table: FormatOptions) -> None:
    """Train LCEval or NNEval to distinguish human from machine captions.

    Features are computed once and stored; an interrupted run is resumed. With several networks each has its own folder
    in `--output`; with several runs each seed has one, and the network itself is the run that selection prefers.

    **Examples**

    `capmeter train lceval flickr30k_references.jsonl.gz --machine machine_captions.jsonl.gz --exclusions
    training_exclusions.json.gz --judgments flickr8k_cf.jsonl.gz -o lceval/`

    `capmeter train lceval flickr30k_references.jsonl.gz --retrieval 1500 --exclusions training_exclusions.json.gz
    --judgments flickr8k_cf.jsonl.gz --restarts 16 -o lceval/`

    `capmeter train lceval captions_train2014.json --machine results.json --exclusions training_exclusions.json.gz
    --judgments flickr8k_cf.jsonl.gz -o networks/ --network study --runs 2`
    """
    with show_progress():
        networks = train(options)
    table_rows = [
        [
            *(network_name, str(network.examples), "+".join(map(str, network.hidden)) or "0", str(network.epoch)),
            *(_score_text(network, score, options.runs) for score in ("accuracy", "tau")),
        ]
        for network_name, network in networks.items()
    ]
    data = {
        network_name: {
            "epoch": network.epoch,
            "runs": options.runs,
            **{score_name: list(pair) for score_name, pair in network.scores.items()},
        }
        for network_name, network in networks.items()
    }
    note = f"{options.runs} runs: mean ± standard deviation" if options.runs > 1 else ""
    columns = ["network", "examples", "hidden", "epoch", "accuracy", "τ"]
    title = "networks, on held-out photos and selecting judgments"
    show(Table(title, columns, table_rows, [False] + [True] * 5, note), data, table.format)


def _score_text(network: NetworkRun, score_name: str, runs: int) -> str:
    if score_name not in network.scores:
        return "-"
    mean, deviation = network.scores[score_name]
    return f"{mean:.4f} ± {deviation:.4f}" if runs > 1 else f"{mean:.4f}"
