"""`capmeter train umic` and `capmeter train import-uniter`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from capmeter.cli.main import echo
from capmeter.cli.options import FormatOptions
from capmeter.cli.output import show
from capmeter.core.options import argument, option
from capmeter.core.progress import show_progress
from capmeter.report.tables import Table
from capmeter_research.common.options import output_option, require_torch
from capmeter_research.papers.umic.training.negatives import parse_negatives
from capmeter_research.papers.umic.training.train import UmicOptions, train


def umic(options: UmicOptions, table: FormatOptions) -> None:
    """Train UMIC: a UNITER that ranks captions above their negatives.

    Fine-tuning has the paper's settings: margin .2, learning rate 2e-6, 4,000 steps of 64 captions with four negatives
    each, the checkpoint with the lowest loss on 25,000 held-out captions. An interrupted run is resumed. With `--runs`
    the table has mean and standard deviation, and the run with the lowest loss becomes the checkpoint.

    **Examples**

    `capmeter train umic captions_train2014.json --regions coco/ --held-out captions_val2014.json
    --exclusions training_exclusions.json.gz --from uniter-base/ --output umic/ --runs 5`

    `capmeter train umic --scenes 5000 --encoder scene-encoder/ --output umic-scenes/ --workers 2`
    """
    with show_progress():
        scores = train(options)
    table_rows = []
    for kind in scores["all"]:
        pairs = [split_scores[kind] for split_scores in scores.values()]
        cells = [f"{mean:.1f}" + (f" ± {deviation:.1f}" if options.runs > 1 else "") for mean, deviation in pairs]
        table_rows.append([kind, *cells])
    title = "held-out images: pairwise accuracy, true caption vs. its negative, %"
    data = {
        split_name: {kind: {"mean": mean, "spread": deviation} for kind, (mean, deviation) in split_scores.items()}
        for split_name, split_scores in scores.items()
    }
    settings = {"runs": options.runs, "negatives": str(parse_negatives(options.negatives))}
    content = Table(title, ["negative", *scores], table_rows, [False] + [True] * len(scores))
    show(content, {"umic": data, **settings, "output": str(options.output)}, table.format)


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """The published files, and the folder of the checkpoint."""

    state_dict: Path = argument(help="Published weights: uniter-base.pt, umic.pt …", metavar="FILE")
    vocabulary: Path = option(..., "vocab.txt of bert-base-cased.")
    output: Path = output_option("Write the checkpoint to this folder.")
    config: Path | None = option(None, "The model's JSON file, if its heads are not 64 wide.")


def import_uniter(options: ImportOptions) -> None:
    """Convert the published weights of UNITER or UMIC; nothing in the file is run.

    **Example**

    `capmeter train import-uniter umic.pt --vocabulary vocab.txt --output umic/`
    """
    require_torch()
    from capmeter_research.papers.umic.training.weights import convert_uniter

    checkpoint = convert_uniter(options.state_dict, options.vocabulary, options.output, options.config)
    head_names = [name.removesuffix(".weight") for name in checkpoint.weights if name.endswith("_output.weight")]
    shape = checkpoint.parameters["shape"]
    echo(f"{options.output}: {checkpoint.label}, {shape}, heads {', '.join(head_names) or 'none'}")
