"""The training and evaluation of the scene-graph parser, from a file of graphs to its checkpoint."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capmeter.core.errors import InputError
from capmeter.core.messages import format_count
from capmeter.core.options import argument, option
from capmeter.core.progress import report_progress
from capmeter.report.tables import Table
from capmeter.text.meteor.resources import load_english_synonyms
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
from capmeter_research.common.parsed_captions import read_json_rows, read_parsed_captions
from capmeter_research.networks.scene_graph_parser.evaluation import SceneGraphEvaluator
from capmeter_research.networks.scene_graph_parser.examples import (
    SceneGraphExample,
    read_factual,
    sample_parsed_examples,
)
from capmeter_research.networks.scene_graph_parser.factual_parser import BUNDLED, FactualParser

if TYPE_CHECKING:
    from capmeter.core.checkpoints import TrainingData

_WARM_UP = 64
"""Captions that are parsed before the time is measured: the first call loads the parser."""


@dataclass(frozen=True, kw_only=True)
class SceneGraphParserOptions:
    """The graphs, and the settings of the run."""

    graphs: Path = argument(help="Captions with scene graphs (gzipped JSON lines).", metavar="FILE")
    output: Path | None = output_option(
        "Train a scene-graph parser; write its checkpoint and log to this folder.", None
    )
    evaluate: bool = option(False, "Evaluate the parser in `--output`, or the bundled one, without training.")
    parses: Path | None = option(
        None, "Parsed captions (as for `capmeter train parser`), whose facts are the examples of the first epoch."
    )
    exclusions: Path | None = exclusions_option()
    documents: Path | None = option(
        None,
        "Documents with scene graphs (gzipped JSON lines): train the bundled parser's network for documents instead.",
    )
    folds: int = option(
        0, "Split `--documents` into this many folds, and judge each by a network trained on the others.", minimum=0
    )
    without: Path | None = option(None, "Rows whose texts are left out of `--documents`, a benchmark's.")
    epochs: int | None = epochs_option()
    run: RunOptions = CpuRunOptions()

    def __post_init__(self) -> None:
        if self.output is None and not self.evaluate:
            raise InputError("expected a folder to write to (--output), or --evaluate")
        if (self.parses is None) != (self.exclusions is None):
            raise InputError("expected both --parses and --exclusions, or neither")
        if self.without is not None and self.documents is None:
            raise InputError("--without is for --documents, which is missing")
        if self.folds and self.documents is None:
            raise InputError("--folds is for --documents, which is missing")
        if self.folds and self.evaluate:
            raise InputError("--folds trains on --documents; leave --evaluate out")

    @property
    def settings(self) -> dict[str, Any]:
        """What these options say of the recipe."""
        return {"seed": self.run.seed} | ({} if self.epochs is None else {"epochs": self.epochs})


def train(options: SceneGraphParserOptions) -> TrainingReport:
    """Train the scene-graph parser on human-written scene graphs (FACTUAL), or evaluate it on the split `dev`.

    Its encoder is initialised from `minilm` (`capmeter[neural]`). One of forty training captions is held out for
    selection. An interrupted run is resumed.

    **Examples**

    `capmeter train scene-graph-parser factual_scene_graphs.jsonl.gz --parses caption_parses.jsonl.gz
    --exclusions training_exclusions.json.gz --output scene-graph-parser/`

    `capmeter train scene-graph-parser factual_scene_graphs.jsonl.gz --evaluate`

    `capmeter train scene-graph-parser factual_scene_graphs.jsonl.gz --documents discosg_graphs.jsonl.gz --folds 3
    --output folds/`
    """
    if options.output is not None and options.documents is not None and not options.evaluate:
        return _train_on_documents(options, options.documents, options.output)
    examples = read_factual(options.graphs)
    dev_examples = [example for example in examples if example.split == "dev"]
    report_progress(
        f"{options.graphs.name}: {format_count(len(examples), 'caption')}, {len(dev_examples):,} of them dev"
    )
    if options.output is not None and not options.evaluate:
        device = options.run.start()
        from capmeter_research.networks.scene_graph_parser.run import train_scene_graph_parser
        from capmeter_research.networks.scene_graph_parser.training import SceneGraphRecipe

        data: list[TrainingData] = [describe_file(options.graphs, len(examples) - len(dev_examples))]
        parsed_examples: list[SceneGraphExample] = []
        if options.parses is not None and options.exclusions is not None:
            captions_with_parses, _ = read_parsed_captions(options.parses, read_exclusions(options.exclusions))
            parsed_examples = sample_parsed_examples(captions_with_parses)
            data.append(describe_file(options.parses, len(parsed_examples)))
            report_progress(f"{options.parses.name}: facts of {format_count(len(parsed_examples), 'caption')}")
        train_scene_graph_parser(
            examples,
            SceneGraphRecipe(**options.settings),
            options.output,
            data=data,
            parsed=parsed_examples,
            threads=options.run.threads,
            device=device,
        )
    parser = FactualParser() if options.output is None else FactualParser(options.output)
    captions = [example.caption for example in dev_examples]
    parser.parse(captions[:_WARM_UP])
    start_time = time.perf_counter()
    predicted_graphs = parser.parse(captions)
    captions_per_second = len(dev_examples) / max(time.perf_counter() - start_time, 1e-9)
    scores = SceneGraphEvaluator(load_english_synonyms()).scores(
        predicted_graphs, [example.triples for example in dev_examples]
    )
    return _report(
        parser.version, "dev captions, %", {**asdict(scores), "captions_per_second": round(captions_per_second)}
    )


def _report(version: str, subject: str, values: dict[str, float]) -> TrainingReport:
    score_row = [round(value, 2) for value in values.values()]
    return TrainingReport(
        Table(subject, list(values), [score_row], [True] * len(score_row)),
        {"parser": version, "values": values},
        (f"scene-graph parser: {version}",),
    )


def _train_on_documents(options: SceneGraphParserOptions, path: Path, output: Path) -> TrainingReport:
    device = options.run.start()
    from capmeter_research.networks.scene_graph_parser.documents import (
        DocumentRecipe,
        cross_validate,
        read_documents,
        train_document_network,
    )

    excluded_rows = [] if options.without is None else [row for _, row in read_json_rows(options.without, "texts")]
    excluded_texts = {value for row in excluded_rows for value in row.values() if isinstance(value, str)}
    documents = read_documents(path, excluded_texts)
    report_progress(f"{path.name}: graphs of {format_count(len(documents), 'document')}")
    recipe = DocumentRecipe(**options.settings)
    if options.folds:
        fold_scores = cross_validate(
            documents, BUNDLED, output, options.folds, recipe=recipe, threads=options.run.threads, device=device
        )
        fold_values = {f"fold {fold_number}": score for fold_number, score in enumerate(fold_scores, 1)} | {
            "mean": sum(fold_scores) / len(fold_scores)
        }
        return _report(FactualParser().version, "SPICE F of documents, %", fold_values)
    data = [describe_file(path, len(documents))]
    threads = options.run.threads
    train_document_network(documents, BUNDLED, output, data=data, recipe=recipe, threads=threads, device=device)
    return _report(FactualParser(BUNDLED, output).version, "training", {"documents": len(documents)})
