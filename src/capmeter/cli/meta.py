"""`capmeter meta`: how far metrics agree with people."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from capmeter.captions.columns import chosen_columns
from capmeter.cli.main import say
from capmeter.cli.options import (
    Columns,
    Device,
    Format,
    ImagesRoot,
    JudgedMetrics,
    Level,
    Plots,
    Precision,
    Regions,
    Resamples,
    Seed,
    settings_of,
)
from capmeter.cli.output import show, write
from capmeter.judgments.benchmarks import benchmark as named_benchmark
from capmeter.judgments.benchmarks import table as benchmarks
from capmeter.meta.agreement import Report, run
from capmeter.meta.complementarity import Combination, combined, rank_correlations, varied
from capmeter.meta.curves import Curve, numbers_of, reference_curve
from capmeter.printable import printable
from capmeter.progress import shown
from capmeter.report.agreement import (
    agreement_notes,
    agreement_table,
    combination_json,
    combination_table,
    curve_table,
    difference_table,
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

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")


@app.command()
def meta(
    benchmark: list[str] = typer.Option(
        [], "--benchmark", "-b", help="The benchmark; repeatable, each with its --data."
    ),
    data: list[Path] = typer.Option([], "--data", "-d", help="Its file (or the folder of the original distribution)."),
    column: Columns = [],
    metrics: JudgedMetrics = "",
    scores: list[Path] = typer.Option(
        [], "--scores", "-s", help="A file of external scores by id (JSON, CSV …); repeatable."
    ),
    protocol: str | None = typer.Option(
        None,
        "--protocol",
        "-p",
        help="A preset, with any changes in parentheses: `clipscore2021(statistic=tau-b)`; `capmeter list protocol` "
        "shows what can be changed.",
    ),
    sample: bool = typer.Option(False, "--sample", help="Accept a subset: do not check the number of judgments."),
    resamples: Resamples = 1000,
    seed: Seed = 0,
    level: Level = 0.95,
    differences: bool = typer.Option(False, "--differences", help="Also show the paired differences of all metrics."),
    images_root: ImagesRoot = None,
    regions: Regions = "",
    device: Device = None,
    precision: Precision = None,
    format: Format = "table",
    per_caption: Path | None = typer.Option(None, help="Write scores and judgments of each caption here."),
    export: Path | None = typer.Option(None, help="Write the captions with their ids here (JSONL), and exit."),
    references_curve: str | None = typer.Option(
        None,
        "--references-curve",
        metavar="K|K,K,…",
        help="Evaluate with 1 to K references, or with these numbers of references (1,5,20), sampled at random.",
    ),
    repeats: int = typer.Option(5, help="With --references-curve: how often references are sampled.", min=1),
    combine: bool = typer.Option(False, "--combine", help="Also evaluate the sum of every two metrics."),
    plot: Plots = [],
    list_all: bool = typer.Option(False, "--list", help="List benchmarks and protocols, and exit."),
) -> None:
    """Measure how far metrics agree with people, with intervals and ranks of significance.

    **Examples**

    `capmeter meta -b flickr8k-expert -d flickr8k_expert.jsonl.gz -m bleu-4,rouge-l,cider-d`

    `capmeter meta -b pascal50s -d pascal50s.jsonl.gz --scores mine.json -m cider-d --format json`

    `capmeter meta -b composite -d composite.jsonl.gz --export captions.jsonl`
    """
    if list_all:
        _list(format)
        return
    if not benchmark or len(benchmark) != len(data):
        raise typer.BadParameter("give each --benchmark its --data (`capmeter meta --list` shows them)")
    if export is not None:
        if len(benchmark) > 1:
            raise typer.BadParameter("--export writes one benchmark at a time")
        write_captions(
            named_benchmark(benchmark[0]).load(data[0], protocol, sample=sample, columns=chosen_columns(column)), export
        )
        return
    settings = settings_of(device, precision)
    options: dict[str, Any] = {"protocol": protocol, "sample": sample, "resamples": resamples, "seed": seed}
    options |= {"level": level, "images_root": images_root, "regions": regions, "columns": chosen_columns(column)}
    judged: list[Judged] = []
    with shown():
        for name, path in zip(benchmark, data, strict=True):
            report = run(metrics, benchmark=name, data=path, scores=scores, settings=settings, **options)
            curve = None
            if references_curve is not None:
                numbers = numbers_of(references_curve)
                curve = reference_curve(
                    report.judgments, metrics, numbers, repeats=repeats, seed=seed, settings=settings
                )
            judged.append(Judged(report, curve, combined(report) if combine else ()))
    many = len(judged) > 1
    for each in judged:
        if per_caption is not None:
            write_items(each.report, _named(per_caption, each.report.benchmark if many else ""))
        for what, figure in each.figures() if plot else ():
            save_figures(figure, [_named(path, f"{each.report.benchmark}-{what}" if many else what) for path in plot])
    if format == "json":
        found = [each.to_dict() for each in judged]
        whole = {"benchmarks": found} if many else found[0]
        write(json.dumps(whole, indent=2, ensure_ascii=False) + "\n")
    else:
        for each in judged:
            for table in each.tables(differences):
                show(table, {}, format)
            below(agreement_notes(each.report), format)
    for signature in dict.fromkeys(row.signature for each in judged for row in each.report.results if row.signature):
        say(f"signature: {signature}")


@dataclass(frozen=True)
class Judged:
    """All requested results of one benchmark."""

    report: Report
    curve: Curve | None
    combinations: tuple[Combination, ...]

    def tables(self, differences: bool) -> Iterator[Table]:
        """The tables to print."""
        yield agreement_table(self.report)
        if differences:
            yield difference_table(self.report)
        if self.combinations:
            yield combination_table(self.report, self.combinations)
        if self.curve is not None:
            yield curve_table(self.curve)

    def figures(self) -> Iterator[tuple[str, Any]]:
        """What each plot shows, and the plot."""
        yield "agreement", agreement_figure(self.report)
        yield "distributions", distribution_figure(self.report)
        if len(varied(self.report)) > 1:
            yield "correlations", correlation_figure(self.report)
        if self.combinations:
            yield "combinations", combination_figure(self.report, self.combinations)
        if self.curve is not None:
            yield "references", curve_figure(self.curve)

    def to_dict(self) -> dict[str, Any]:
        """The report and the other requested results."""
        data = self.report.to_dict()
        names, table = rank_correlations(self.report)
        if len(names) > 1:
            data["spearman"] = {"metrics": list(names), "values": table.tolist()}
        if self.combinations:
            data["combinations"] = [
                {"first": each.first, "second": each.second, **combination_json(each)} for each in self.combinations
            ]
        if self.curve is not None:
            data["references_curve"] = self.curve.to_dict()
        return data


def below(notes: list[str], format: str) -> None:
    """The lines below a table: comments in LaTeX, standard error for CSV."""
    for line in notes:
        if format == "csv":
            say(line)
        else:
            write(f"{'% ' if format == 'latex' else ''}{printable(line)}\n")


def _list(format: str) -> None:
    rows = [
        [name, each.title, f"{each.rows:,}" if each.rows else "any", protocol, str(preset), each.source]
        for name, each in benchmarks().items()
        for protocol, preset in each.protocols.items()
    ]
    heads = ["benchmark", "what", "rows", "protocol", "in full", "source"]
    data = {
        name: {
            "title": each.title,
            "rows": each.rows,
            "source": each.source,
            "protocols": {key: str(value) for key, value in each.protocols.items()},
        }
        for name, each in benchmarks().items()
    }
    brief = [
        ["" if k else name, str(preset)]
        for name, each in benchmarks().items()
        for k, preset in enumerate(each.protocols.values())
    ]
    table = Table("Benchmarks and their protocols, the default first", ["benchmark", "protocol"], brief, [False] * 2)
    show(table if format == "table" else Table("", heads, rows, [False] * 6), data, format)


def _named(path: Path, what: str) -> Path:
    """The file's name with `-what` before its ending."""
    ending = "".join(path.suffixes[-2:]) if path.suffix == ".gz" else path.suffix
    return path.with_name(f"{path.name.removesuffix(ending)}-{what}{ending}") if what else path
