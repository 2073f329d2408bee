"""The training and evaluation of the caption parser, from files of parses to its checkpoint."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path

from capmeter.core.errors import InputError
from capmeter.core.messages import format_count
from capmeter.core.options import argument, option
from capmeter.core.progress import report_progress
from capmeter.report.tables import Table
from capmeter.text.parsing.caption_parser import CaptionParser
from capmeter_research.common.benchmark_exclusions import read_exclusions
from capmeter_research.common.options import (
    CpuRunOptions,
    RunOptions,
    TrainingReport,
    describe_file,
    epochs_option,
    exclusions_option,
    output_option,
)
from capmeter_research.common.parsed_captions import ParsedCaption, read_parsed_captions
from capmeter_research.networks.parser.evaluation import ParserScores, evaluate_parser, group_by_form


@dataclass(frozen=True, kw_only=True)
class ParserOptions:
    """The parses, and the settings of the run."""

    parses: list[Path] = argument(help="Parsed captions (gzipped JSON lines).", metavar="FILE...")
    exclusions: Path | None = exclusions_option()
    output: Path | None = output_option("Train a parser; write its checkpoint and log to this folder.", None)
    evaluate: bool = option(False, "Evaluate the parser in `--output`, or the bundled one, without training.")
    epochs: int = epochs_option(11)
    share: float = option(1.0, "Train on this share of the photos, for a learning curve.", minimum=0.001, maximum=1.0)
    run: RunOptions = CpuRunOptions()

    def __post_init__(self) -> None:
        if self.output is None and not self.evaluate:
            raise InputError("expected a folder to write to (--output), or --evaluate")


def train(options: ParserOptions) -> TrainingReport:
    """Train the caption parser on the parses of another parser, or evaluate it on held-out photos.

    Three per cent of the photos are held out, chosen by their number. An interrupted run is resumed.

    **Examples**

    `capmeter train parser caption_parses.jsonl.gz --exclusions training_exclusions.json.gz --output parser/`

    `capmeter train parser caption_parses.jsonl.gz --exclusions training_exclusions.json.gz --evaluate`
    """
    exclusions = read_exclusions(options.exclusions)
    examples: list[ParsedCaption] = []
    data_files = []
    for path in options.parses:
        captions, excluded = read_parsed_captions(path, exclusions)
        report_progress(
            f"{path.name}: {format_count(len(captions), 'caption')}; {excluded:,} of benchmark photos were left out"
        )
        examples += captions
        data_files.append(describe_file(path, len(captions)))
    if options.output is not None and not options.evaluate:
        device, threads = options.run.start(), options.run.threads
        from capmeter_research.networks.parser.training import ParserRecipe, train_parser

        recipe = ParserRecipe(epochs=options.epochs, seed=options.run.seed)
        train_parser(
            examples, recipe, options.output, data=data_files, share=options.share, threads=threads, device=device
        )
    parser = CaptionParser() if options.output is None else CaptionParser(options.output)
    form_groups = group_by_form(example for example in examples if example.held_out)
    scores = {name: asdict(evaluate_parser(parser, group)) for name, group in form_groups.items() if group}
    columns = ["form", *(field.name for field in fields(ParserScores))]
    table_rows = [[form_name, *score_values.values()] for form_name, score_values in scores.items()]
    return TrainingReport(
        Table("held-out captions, %", columns, table_rows, [False] + [True] * (len(columns) - 1)),
        {"parser": parser.version, "held_out": scores},
        (f"parser: {parser.version}",),
    )
