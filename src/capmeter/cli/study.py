"""`capmeter study`: the studies of the SMURF, LCEval, LEIC, UMIC and SubICap papers, on any data."""

from __future__ import annotations

from pathlib import Path

import typer

from capmeter.captions.columns import chosen_columns
from capmeter.captions.io import load, load_systems
from capmeter.captions.model import CaptionSet
from capmeter.cli.captioner_study import app as captioner_app
from capmeter.cli.lceval_study import lceval
from capmeter.cli.leic_study import app as leic_app
from capmeter.cli.machines import machines
from capmeter.cli.main import say
from capmeter.cli.options import (
    Columns,
    Device,
    Encoders,
    Files,
    Format,
    Metrics,
    Plots,
    Precision,
    References,
    Resamples,
    Seed,
    settings_of,
)
from capmeter.cli.output import show
from capmeter.errors import InputError
from capmeter.meta.studies.cases import CAUSES, read_sheet, write_sheet
from capmeter.meta.studies.cases import tally as cause_tally
from capmeter.meta.studies.degradation import degradation as study_degradation
from capmeter.meta.studies.degradation import read_sentences
from capmeter.meta.studies.distribution import of_benchmark
from capmeter.meta.studies.failures import critical_failures
from capmeter.meta.studies.grammar import grammar as study_grammar
from capmeter.meta.studies.grammar import read_corrections
from capmeter.meta.studies.rankings import read_system_scores
from capmeter.meta.studies.ties import tie_free, without_own
from capmeter.metrics.registry import parse, parse_list
from capmeter.progress import shown
from capmeter.report import studies as report
from capmeter.report.distribution import distribution_figure, distribution_table, distribution_to_dict
from capmeter.report.figures import save_figures

app = typer.Typer(
    add_completion=False, rich_markup_mode="markdown", no_args_is_help=True, help="Study metrics on your own data."
)
app.add_typer(leic_app, name="leic")
app.add_typer(captioner_app, name="captioner")


@app.command()
def degradation(
    text: str = typer.Argument(..., help="A plain text (.txt), or captions in any format.", metavar="FILE"),
    encoder: Encoders = ["minilm"],
    column: Columns = [],
    sample: int = typer.Option(25, help="How many sentences to sample.", min=2),
    steps: int = typer.Option(20, help="The number of steps until all words are replaced.", min=1),
    seed: Seed = 0,
    resamples: Resamples = 1000,
    device: Device = None,
    precision: Precision = None,
    plot: Plots = [],
    format: Format = "table",
) -> None:
    """Replace more and more words with random ones, and measure MIMA (SMURF, Figure 5).

    `capmeter study degradation articles.txt -e minilm -e roberta --plot degradation.png`
    """
    with shown():
        found = study_degradation(
            read_sentences(text, chosen_columns(column)),
            list(dict.fromkeys(encoder)),
            sample=sample,
            steps=steps,
            seed=seed,
            resamples=resamples,
            settings=settings_of(device, precision),
        )
    if plot:
        save_figures(report.degradation_figure(found), plot)
    show(report.degradation_table(found), report.degradation_to_dict(found), format)


@app.command()
def grammar(
    sentences: str = typer.Argument(
        ..., help="Rows with `systems: {name: sentence}`, or captions of several systems.", metavar="FILE"
    ),
    human: str = typer.Option(
        ...,
        "--human",
        "-H",
        help="Human scores of the systems: {system: score}, rows, or rankings.",
    ),
    key: str | None = typer.Option(None, help="The field of the score in the rows of --human."),
    metrics: Metrics = "mima(encoder=minilm)",
    column: Columns = [],
    exclude: list[str] = typer.Option([], "--exclude", help="Leave this system out (such as INPUT); repeatable."),
    seed: Seed = 0,
    resamples: Resamples = 1000,
    device: Device = None,
    precision: Precision = None,
    plot: Plots = [],
    format: Format = "table",
) -> None:
    """Compare metrics with human scores of grammar correction systems (SMURF, Table 1).

    `capmeter study grammar sentences.jsonl --human judgments.jsonl -m "mima(encoder=minilm)" --plot grammar.png`
    """
    with shown():
        systems = {
            name: each
            for name, each in read_corrections(sentences, chosen_columns(column)).items()
            if name not in exclude
        }
        scores = read_system_scores(human, key)
        found = study_grammar(
            systems,
            scores,
            parse_list(metrics),
            resamples=resamples,
            seed=seed,
            settings=settings_of(device, precision),
        )
    if plot:
        save_figures(report.grammar_figure(found), plot)
    show(report.grammar_table(found), report.grammar_to_dict(found), format)


@app.command()
def failures(
    files: Files,
    human: str = typer.Option(..., "--human", "-H", help="Human scores of the systems: {system: score}, or rows."),
    key: str | None = typer.Option(None, help="The field of the score in the rows of --human."),
    references: References = None,
    column: Columns = [],
    metrics: Metrics = "cider-d,meteor,rouge-l,bleu-4",
    against: str = typer.Option("smurf(encoder=minilm)", "--against", "-a", help="The reference metric."),
    gravest: int = typer.Option(20, help="How many of the gravest cases to include (--format json, --sheet).", min=0),
    sheet: Path | None = typer.Option(
        None,
        "--sheet",
        help="Write the gravest cases here (CSV) for manual labelling; `study tally` reads the file back.",
    ),
    seed: Seed = 0,
    resamples: Resamples = 1000,
    device: Device = None,
    precision: Precision = None,
    plot: Plots = [],
    format: Format = "table",
) -> None:
    """Count the images on which a metric reverses the order of systems (SMURF, Table 5).

    `capmeter study failures rows.jsonl --human m2.json -m cider-d,meteor -a "smurf(encoder=minilm)" --plot f.png`
    """
    with shown():
        systems: dict[str, CaptionSet] = {}
        for given in files:
            name, equals, path = given.partition("=")
            named = bool(equals and name) and not Path(given).exists()
            several = load_systems(path if named else given, references, columns=chosen_columns(column))
            if named and len(several) == 1:
                several = {name: next(iter(several.values()))}
            twice = [each for each in several if each in systems]
            if twice:
                raise InputError(f"{given}: two systems have the name {twice[0]!r}; name each one: NAME=FILE")
            systems |= several
        scores = read_system_scores(human, key)
        found = critical_failures(
            systems,
            scores,
            parse_list(metrics),
            parse(against),
            gravest=gravest,
            resamples=resamples,
            seed=seed,
            settings=settings_of(device, precision),
        )
    if plot:
        save_figures(report.failure_figure(found), plot)
    if sheet is not None:
        cases = write_sheet(found, sheet)
        say(f"wrote {sheet}: {cases:,} cases; write {', '.join(CAUSES)} into the column cause, then `study tally`")
    show(report.failure_table(found), report.failure_to_dict(found), format)


@app.command()
def tally(
    sheet: Path = typer.Argument(..., help="The sheet of `study failures --sheet`, labelled.", metavar="SHEET.csv"),
    cause: list[str] = typer.Option(
        list(CAUSES), "--cause", help="A cause that the sheet may name; repeatable (default: the paper's causes)."
    ),
    seed: Seed = 0,
    resamples: Resamples = 1000,
    format: Format = "table",
) -> None:
    """Count the causes of failures in a labelled sheet of cases (SMURF, Table 5).

    `capmeter study failures rows.jsonl --human m2.json -m cider-d --sheet cases.csv`, label it, then
    `capmeter study tally cases.csv`
    """
    found = cause_tally(read_sheet(sheet, cause), cause, resamples=resamples, seed=seed)
    show(report.tally_table(found), report.tally_to_dict(found), format)


@app.command()
def ties(
    experts: str = typer.Argument(..., help="Captions with the experts' ratings (`human`).", metavar="EXPERTS"),
    crowd: str = typer.Argument(..., help="Captions with another group's ratings.", metavar="CROWD"),
    metrics: Metrics = "sparcs,cider-d,rouge-l,bleu-1",
    column: Columns = [],
    own: bool = typer.Option(False, "--own", help="Keep captions that are among their own references."),
    seed: Seed = 0,
    resamples: Resamples = 1000,
    device: Device = None,
    precision: Precision = None,
    plot: Plots = [],
    format: Format = "table",
) -> None:
    """Compare metrics, and a second group of raters, with experts on tie-free pairs (SMURF, Table 4).

    `capmeter study ties flickr8k_expert.jsonl.gz flickr8k_cf.jsonl.gz -m sparcs,cider-d,meteor --plot ties.png`
    """
    with shown():
        columns = chosen_columns(column)
        judged = load(experts, columns=columns)
        found = tie_free(
            judged if own else without_own(judged),
            load(crowd, columns=columns),
            parse_list(metrics),
            resamples=resamples,
            seed=seed,
            settings=settings_of(device, precision),
        )
    if plot:
        save_figures(report.tie_figure(found), plot)
    show(report.tie_table(found), report.tie_to_dict(found), format)


@app.command()
def distribution(
    benchmarks: list[str] = typer.Argument(
        ..., help="Benchmarks of rated captions, each with its file: capeval1k=FILE.", metavar="BENCHMARK=FILE..."
    ),
    sample: bool = typer.Option(False, "--sample", help="Accept files that are parts of their benchmark."),
    plot: Plots = [],
    format: Format = "table",
) -> None:
    """Show how human scores are distributed in benchmarks (UMIC, Figure 4).

    `capmeter study distribution capeval1k=capeval1k.jsonl.gz composite=composite.jsonl.gz --plot scores.png`
    """
    found = []
    for given in benchmarks:
        name, equals, path = given.partition("=")
        if not equals:
            raise typer.BadParameter(f"{given!r} is not BENCHMARK=FILE", param_hint="BENCHMARK=FILE")
        found.append(of_benchmark(name, path, sample=sample))
    if plot:
        save_figures(distribution_figure(found), plot)
    show(distribution_table(found), distribution_to_dict(found), format)


app.command()(lceval)
app.command()(machines)
