"""`capmeter meta`: how far metrics agree with people."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import typer

from capmeter.cli.main import say
from capmeter.cli.output import FORMAT_HELP, show
from capmeter.meta.agreement import Report, run
from capmeter.meta.benchmarks import benchmark as named_benchmark
from capmeter.meta.benchmarks import table as benchmarks
from capmeter.progress import shown
from capmeter.report.agreement import agreement_notes, agreement_table, difference_table, write_captions, write_items
from capmeter.report.tables import FORMATS, Table

app = typer.Typer(rich_markup_mode="markdown")


@app.command()
def meta(
    benchmark: list[str] = typer.Option([], "--benchmark", "-b", help="The benchmark; several take as many --data."),
    data: list[Path] = typer.Option([], "--data", "-d", help="Its file (or folder of the original distribution)."),
    metrics: str = typer.Option("", "--metrics", "-m", help="Names, separated by commas; `capmeter list` shows them."),
    scores: list[Path] = typer.Option([], "--scores", "-s", help="A file of anyone's scores by id (JSON, CSV …)."),
    protocol: str | None = typer.Option(
        None, "--protocol", "-p", help="A preset, with changes in brackets: `clipscore2021(statistic=tau-b)`."
    ),
    sample: bool = typer.Option(False, "--sample", help="Accept a part of the set: do not check the number."),
    draws: int = typer.Option(1000, help="How many bootstrap draws.", min=10),
    seed: int = typer.Option(0, help="Seed of the draws."),
    level: float = typer.Option(0.95, help="Confidence of the intervals.", min=0.5, max=0.999),
    differences: bool = typer.Option(False, "--differences", help="Show the paired differences of all metrics too."),
    format: str = typer.Option("table", "--format", "-f", help=FORMAT_HELP),
    per_caption: Path | None = typer.Option(None, help="Write scores and judgments of each caption here."),
    export: Path | None = typer.Option(None, help="Write the captions with their ids here (JSONL), and stop."),
    references_curve: int | None = typer.Option(
        None, "--references-curve", help="Judge with 1 to K references, drawn anew each time.", min=1
    ),
    repeats: int = typer.Option(5, help="With --references-curve: how many draws of the references.", min=1),
    combine: bool = typer.Option(False, "--combine", help="Judge the sums of every two metrics too."),
    plot: Path | None = typer.Option(None, help="Write plots here: NAME.png gives NAME-distributions.png and so on."),
    list_all: bool = typer.Option(False, "--list", help="List benchmarks and protocols, and stop."),
) -> None:
    """Say how far metrics agree with people, with intervals and ranks of significance.

    **Examples**

    `capmeter meta -b flickr8k-expert -d flickr8k_expert.jsonl.gz -m bleu-4,rouge-l,cider-d`

    `capmeter meta -b pascal50s -d pascal50s.jsonl.gz --scores mine.json -m cider-d --format json`

    `capmeter meta -b composite -d composite.jsonl.gz --export captions.jsonl`
    """
    if format not in FORMATS:
        raise typer.BadParameter(f"{format!r} is not one of {', '.join(FORMATS)}", param_hint="--format")
    if list_all:
        _list(format)
        return
    if not benchmark or len(benchmark) != len(data):
        raise typer.BadParameter("give each --benchmark its --data (`capmeter meta --list` shows them)")
    if export is not None:
        if len(benchmark) > 1:
            raise typer.BadParameter("--export writes one benchmark at a time")
        write_captions(named_benchmark(benchmark[0]).load(data[0], protocol, sample=sample), export)
        return
    options = {"protocol": protocol, "sample": sample, "draws": draws, "seed": seed, "level": level}
    reports: list[Report] = []
    with shown():
        for name, path in zip(benchmark, data, strict=True):
            reports.append(run(metrics, benchmark=name, data=path, scores=scores, **options))  # type: ignore[arg-type]
    if per_caption is not None:
        for report in reports:
            write_items(report, _named(per_caption, report.benchmark, len(reports)))
    _print(reports, differences, format)
    for signature in dict.fromkeys(each.signature for report in reports for each in report.results if each.signature):
        say(f"signature: {signature}")


def _print(reports: list[Report], differences: bool, format: str) -> None:
    if format == "json":
        found = [report.to_json() for report in reports]
        data = found[0] if len(found) == 1 else {"benchmarks": found}
        sys.stdout.write(json.dumps(data, indent=2, ensure_ascii=False) + "\n")
        return
    for report in reports:
        for table in [agreement_table(report), *([difference_table(report)] if differences else [])]:
            show(table, {}, format)
        below(agreement_notes(report), format)


def below(notes: list[str], format: str) -> None:
    """The lines that belong below a table: in LaTeX as comments, beside CSV on standard error."""
    for line in notes:
        if format == "csv":
            say(line)
        else:
            typer.echo(f"% {line}" if format == "latex" else line)


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
    brief = [row[:2] + row[3:4] for row in rows]
    table = Table("Benchmarks and protocols, the default first", ["benchmark", "what", "protocol"], brief, [False] * 3)
    show(table if format == "table" else Table("", heads, rows, [False] * 6), data, format)


def _named(path: Path, benchmark: str, many: int) -> Path:
    """One file per benchmark, where there are several."""
    if many == 1:
        return path
    ending = "".join(path.suffixes)
    return path.with_name(f"{path.name.removesuffix(ending)}-{benchmark}{ending}")
