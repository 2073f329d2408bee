"""`capmeter meta`: how well metrics agree with human judgments."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import typer

from capmeter.captions.load_options import LoadOptions
from capmeter.cli.command import Application
from capmeter.cli.main import echo
from capmeter.cli.options import (
    DeviceOptions,
    complete_metrics,
    control_option,
    format_option,
    level_option,
    plot_option,
    resamples_option,
    seed_option,
)
from capmeter.cli.output import refuse_shared_files, show, write, write_lines
from capmeter.core.options import option, option_group
from capmeter.core.output_files import check_targets
from capmeter.core.progress import show_progress
from capmeter.core.terminal import escape_controls
from capmeter.judgments.benchmarks import all_benchmarks as benchmarks
from capmeter.judgments.benchmarks import find_benchmark as named_benchmark
from capmeter.meta.agreement import AgreementReport, run, with_p_values
from capmeter.meta.arena import ArenaRanking, rank_systems
from capmeter.meta.complementarity import MetricPair, combine_pairs, rank_correlations, varying_scores
from capmeter.meta.length_control import check_length_control, with_length_control
from capmeter.meta.metric_scores import parse_metrics
from capmeter.meta.reference_curves import ReferenceCurve, parse_numbers, reference_curve
from capmeter.report.agreement import (
    agreement_notes,
    agreement_table,
    combination_json,
    combination_table,
    curve_table,
    difference_table,
    ranking_table,
    write_captions,
    write_items,
)
from capmeter.report.agreement_plots import (
    agreement_figure,
    combination_figure,
    correlation_figure,
    curve_figure,
    distribution_figure,
)
from capmeter.report.figures import save_figures
from capmeter.report.tables import Table

app = Application()


@dataclass(frozen=True, kw_only=True)
class MetaOptions:
    """The benchmarks, what is evaluated on them, and what is printed."""

    benchmark: list[str] = option([], "The benchmark; repeatable, each with its --data.", "--benchmark", "-b")
    data: list[Path] = option([], "Its file (or the folder of the original distribution).", "--data", "-d")
    metrics: str = option(
        "",
        "Names, separated by commas; `capmeter list` shows them. Baselines of capmeter-research: gleu (on conll14).",
        "--metrics",
        "-m",
        check=parse_metrics,
        complete=complete_metrics,
        separator=",",
    )
    scores: list[Path] = option([], "A file of external scores by id (JSON, CSV …); repeatable.", "--scores", "-s")
    protocol: str | None = option(
        None,
        "A preset, with any changes in parentheses: `clipscore2021(statistic=tau-b)`; `capmeter list protocol` shows "
        "what can be changed.",
        "--protocol",
        "-p",
    )
    sample: bool = option(False, "Accept a subset: do not check the number of judgments.")
    resamples: int = resamples_option()
    seed: int = seed_option()
    level: float = level_option()
    differences: bool = option(False, "Also show the paired differences of all metrics.")
    p_values: bool = option(
        False, "Also test whether each coefficient with ratings differs from 0, by permutation over images."
    )
    control: str | None = control_option(
        "agreement with length held constant (partial correlations; of pairs, accuracy "
        "where people prefer the longer and the shorter caption, equally weighted)"
    )
    load: LoadOptions = option_group(LoadOptions, "columns", "images_root", "regions")
    compute: DeviceOptions = DeviceOptions()
    format: str = format_option()
    per_caption: Path | None = option(None, "Write scores and judgments of each caption into this file.")
    export: Path | None = option(None, "Write the captions with their ids into this file (JSONL), and exit.")
    references_curve: str | None = option(
        None,
        "Evaluate with 1 to K references, or with these numbers of references (1,5,20), sampled at random.",
        metavar="K|K,K,…",
    )
    repeats: int = option(5, "With --references-curve: how often references are sampled.", minimum=1)
    combine: bool = option(False, "Also evaluate the sum of every two metrics.")
    plot: list[Path] = plot_option()
    list_all: bool = option(False, "List benchmarks and protocols, and exit.", "--list")


@app.command()
def meta(options: MetaOptions) -> None:
    """Measure how well metrics agree with human judgments, with intervals and ranks of significance.

    **Examples**

    `capmeter meta -b flickr8k-expert -d flickr8k_expert.jsonl.gz -m bleu-4,rouge-l,cider-d`

    `capmeter meta -b pascal50s -d pascal50s.jsonl.gz --scores mine.json -m cider-d --format json`

    `capmeter meta -b composite -d composite.jsonl.gz --export captions.jsonl`

    `capmeter meta -b caparena -d caparena_annots_eval.json -m meteor,capmeter --control length`
    """
    if options.list_all:
        _show_benchmarks(options.format)
        return
    check_targets(options.per_caption, options.export, *options.plot)
    input_paths = [*options.data, *options.scores]
    refuse_shared_files(input_paths, per_caption=options.per_caption, export=options.export)
    if not options.benchmark or len(options.benchmark) != len(options.data):
        raise typer.BadParameter("give each --benchmark its --data (`capmeter meta --list` shows them)")
    if options.export is not None:
        if len(options.benchmark) > 1:
            raise typer.BadParameter("--export writes one benchmark at a time")
        benchmark = named_benchmark(options.benchmark[0])
        judgments = benchmark.load(
            options.data[0], options.protocol, sample=options.sample, columns=options.load.columns
        )
        write_captions(judgments, options.export)
        return
    with show_progress():
        results = [_evaluate(name, path, options) for name, path in zip(options.benchmark, options.data, strict=True)]
    many_benchmarks = len(results) > 1
    for benchmark_results in results:
        name = benchmark_results.report.benchmark
        if options.per_caption is not None:
            write_items(benchmark_results.report, _with_suffix(options.per_caption, name if many_benchmarks else ""))
        for figure_name, figure in benchmark_results.figures() if options.plot else ():
            file_suffix = f"{name}-{figure_name}" if many_benchmarks else figure_name
            save_figures(figure, [_with_suffix(path, file_suffix) for path in options.plot])
    _show_results(results, options)
    reports = (benchmark_results.report for benchmark_results in results)
    for signature in dict.fromkeys(row.signature for report in reports for row in report.results if row.signature):
        echo(f"signature: {signature}")


@dataclass(frozen=True)
class BenchmarkResults:
    """All requested results of one benchmark."""

    report: AgreementReport
    curve: ReferenceCurve | None
    combinations: tuple[MetricPair, ...]
    rankings: tuple[ArenaRanking, ...] = ()

    def tables(self, differences: bool) -> Iterator[Table]:
        """The tables to print."""
        yield agreement_table(self.report)
        if self.rankings:
            yield ranking_table(self.report, self.rankings)
        if differences:
            yield difference_table(self.report)
        if self.combinations:
            yield combination_table(self.report, self.combinations)
        if self.curve is not None:
            yield curve_table(self.curve)

    def figures(self) -> Iterator[tuple[str, Any]]:
        """The name of each figure, and the figure."""
        yield "agreement", agreement_figure(self.report)
        yield "distributions", distribution_figure(self.report)
        if len(varying_scores(self.report)) > 1:
            yield "correlations", correlation_figure(self.report)
        if self.combinations:
            yield "combinations", combination_figure(self.report, self.combinations)
        if self.curve is not None:
            yield "references", curve_figure(self.curve)

    def to_dict(self) -> dict[str, Any]:
        """The report and the other requested results."""
        data = self.report.to_dict()
        metric_names, correlation_table = rank_correlations(self.report)
        if len(metric_names) > 1:
            data["spearman"] = {"metrics": list(metric_names), "values": correlation_table.tolist()}
        if self.combinations:
            data["combinations"] = [
                {"first": each.first, "second": each.second, **combination_json(each)} for each in self.combinations
            ]
        if self.rankings:
            data["arena"] = [asdict(each) for each in self.rankings]
        if self.curve is not None:
            data["references_curve"] = self.curve.to_dict()
        return data


def _evaluate(benchmark_name: str, data_path: Path, options: MetaOptions) -> BenchmarkResults:
    """The results on one benchmark."""
    if options.control is not None:
        check_length_control(named_benchmark(benchmark_name).protocol(options.protocol), benchmark_name)
    settings = options.compute.settings()
    report = run(
        options.metrics,
        benchmark=benchmark_name,
        data=data_path,
        protocol=options.protocol,
        scores=options.scores,
        sample=options.sample,
        resamples=options.resamples,
        seed=options.seed,
        level=options.level,
        images_root=options.load.images_root,
        columns=options.load.columns,
        regions=options.load.regions,
        settings=settings,
    )
    if options.p_values:
        report = with_p_values(report, options.resamples)
    if options.control is not None:
        report = with_length_control(report)
    curve = None
    if options.references_curve is not None:
        curve = reference_curve(
            report.judgments,
            options.metrics,
            parse_numbers(options.references_curve),
            repeats=options.repeats,
            seed=options.seed,
            settings=settings,
        )
    combinations = combine_pairs(report) if options.combine else ()
    return BenchmarkResults(report, curve, combinations, rank_systems(report))


def _show_results(results: list[BenchmarkResults], options: MetaOptions) -> None:
    if options.format == "json":
        result_dicts = [benchmark_results.to_dict() for benchmark_results in results]
        data = {"benchmarks": result_dicts} if len(result_dicts) > 1 else result_dicts[0]
        write(json.dumps(data, indent=2, ensure_ascii=False) + "\n")
        return
    for benchmark_results in results:
        for table in benchmark_results.tables(options.differences):
            show(table, {}, options.format)
        for line in agreement_notes(benchmark_results.report):  # comments in LaTeX, standard error for CSV
            if options.format == "csv":
                echo(line)
            elif options.format == "latex":
                write(f"% {escape_controls(line)}\n")
            else:
                write_lines([escape_controls(line)])


def _show_benchmarks(format: str) -> None:
    if format == "table":
        table_rows = [
            ["" if k else name, str(preset_protocol)]
            for name, each in benchmarks().items()
            for k, preset_protocol in enumerate(each.protocols.values())
        ]
        title = "Benchmarks and their protocols, the default first"
        show(Table(title, ["benchmark", "protocol"], table_rows, [False] * 2), {}, format)
        return
    table_rows = [
        [name, each.title, f"{each.rows:,}" if each.rows else "any", protocol_name, str(preset_protocol), each.source]
        for name, each in benchmarks().items()
        for protocol_name, preset_protocol in each.protocols.items()
    ]
    data = {name: each.to_dict() for name, each in benchmarks().items()}
    columns = ["benchmark", "title", "rows", "protocol", "parameters", "source"]
    show(Table("", columns, table_rows, [False] * 6), data, format)


def _with_suffix(path: Path, name_suffix: str) -> Path:
    """The file's name with `-suffix` before its ending."""
    file_ending = "".join(path.suffixes[-2:]) if path.suffix == ".gz" else path.suffix
    return path.with_name(f"{path.name.removesuffix(file_ending)}-{name_suffix}{file_ending}") if name_suffix else path
