"""`capmeter meta`: how well metrics agree with human judgments."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import typer

from capmeter.captions.load_options import LoadOptions
from capmeter.cli.command import Application
from capmeter.cli.main import echo
from capmeter.cli.options import (
    DeviceOptions,
    control_option,
    format_option,
    instances_option,
    level_option,
    metrics_option,
    plot_option,
    resamples_option,
    seed_option,
    with_instances,
)
from capmeter.cli.output import refuse_shared_files, show, write, write_lines
from capmeter.core.messages import escape_controls
from capmeter.core.options import option, option_group
from capmeter.core.output_files import table_kind, write_table
from capmeter.core.progress import show_progress
from capmeter.evaluation.registry import parse_list
from capmeter.judgments.benchmarks import all_benchmarks as benchmarks
from capmeter.judgments.benchmarks import find_benchmark as named_benchmark
from capmeter.meta.agreement import AgreementTable, run
from capmeter.meta.arena import rank_systems
from capmeter.meta.length_control import check_length_control, control_length
from capmeter.report.agreement import (
    agreement_figure,
    agreement_notes,
    agreement_table,
    difference_table,
    distribution_figure,
    ranking_table,
    write_captions,
    write_items,
)
from capmeter.report.figures import save_figures
from capmeter.report.leaderboard import write_leaderboard
from capmeter.report.tables import Table

app = Application()


@dataclass(frozen=True, kw_only=True)
class _MetaOptions:
    """The benchmarks, what is evaluated on them, and what is printed."""

    benchmark: list[str] = option([], "The benchmark; repeatable, each with its --data.", "--benchmark", "-b")
    data: list[Path] = option([], "Its file (or the folder of the original distribution).", "--data", "-d")
    metrics: str = metrics_option("")
    instances: Path | None = instances_option()
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
    control: str | None = control_option(
        "agreement with length held constant (partial correlations; of pairs, accuracy "
        "where people prefer the longer and the shorter caption, equally weighted)"
    )
    load: LoadOptions = option_group(LoadOptions, "columns", "images_root", "regions")
    compute: DeviceOptions = DeviceOptions()
    format: str = format_option()
    output: Path | None = option(
        None,
        "Write every number into this file, a row each (metric, statistic, subset, value …): .parquet, .csv, .tsv or "
        ".jsonl.",
        "--output",
        "-o",
    )
    per_caption: Path | None = option(None, "Write scores and judgments of each caption into this file.")
    export: Path | None = option(None, "Write the captions with their ids into this file (JSONL), and exit.")
    plot: list[Path] = plot_option()
    leaderboard: Path | None = option(
        None, "Make FOLDER/leaderboard.html of the results (--output) in this folder, and exit.", metavar="FOLDER"
    )
    list_all: bool = option(False, "List benchmarks and protocols, and exit.", "--list")


@app.command()
def meta(options: _MetaOptions) -> None:
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
    if options.leaderboard is not None:
        echo(f"wrote {write_leaderboard(options.leaderboard)}")
        return
    outputs = {name: getattr(options, name) for name in ("output", "per_caption", "export", "plot")}
    refuse_shared_files([*options.data, *options.scores], **outputs)
    for path in filter(None, (options.output, options.per_caption)):
        table_kind(path)
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
        tables = [_evaluate(name, path, options) for name, path in zip(options.benchmark, options.data, strict=True)]
    for table in tables:
        name = table.benchmark if len(tables) > 1 else ""
        if options.per_caption is not None:
            write_items(table, _with_suffix(options.per_caption, name))
        for figure_name, draw in (("agreement", agreement_figure), ("distributions", distribution_figure)):
            file_suffix = f"{name}-{figure_name}" if name else figure_name
            if options.plot:
                plots = save_figures(draw(table), [_with_suffix(path, file_suffix) for path in options.plot])
                echo(f"wrote {', '.join(map(str, plots))}")
    if options.output is not None:
        write_table((table.to_arrow() for table in tables), options.output)
    _show_results(tables, options)
    rows = (row for table in tables for row in table.results)
    for signature in dict.fromkeys(row.signature for row in rows if row.signature):
        echo(f"signature: {signature}")


def _evaluate(benchmark_name: str, data_path: Path, options: _MetaOptions) -> AgreementTable:
    """All requested rows of one benchmark."""
    if options.control is not None:
        check_length_control(named_benchmark(benchmark_name).protocol(options.protocol), benchmark_name)
    table = run(
        with_instances(parse_list(options.metrics), options.instances) if options.metrics else (),
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
        settings=options.compute.settings(),
    )
    if options.control is not None:
        table = table.add(control_length(table))
    return table.add(rank_systems(table))


def _show_results(tables: list[AgreementTable], options: _MetaOptions) -> None:
    if options.format == "json":
        result_dicts = [table.to_dict() for table in tables]
        data = {"benchmarks": result_dicts} if len(result_dicts) > 1 else result_dicts[0]
        write(json.dumps(data, indent=2, ensure_ascii=False) + "\n")
        return
    for table in tables:
        show(agreement_table(table), {}, options.format)
        if table.of("arena"):
            show(ranking_table(table), {}, options.format)
        if options.differences:
            show(difference_table(table), {}, options.format)
        for line in agreement_notes(table):  # comments in LaTeX, standard error for CSV
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
