"""`capmeter study`: the studies of the SMURF, TBR, LCEval, LEIC, UMIC and SubICap papers, on any data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capmeter.captions.load import load
from capmeter.captions.load_options import LoadOptions
from capmeter.cli.command import Application
from capmeter.cli.inputs import load_named_systems
from capmeter.cli.main import echo
from capmeter.cli.options import (
    DeviceOptions,
    FormatOptions,
    encoder_option,
    metrics_option,
    plot_option,
    resamples_option,
    seed_option,
    systems_argument,
)
from capmeter.cli.output import show
from capmeter.core.errors import InputError
from capmeter.core.options import argument, option, option_group
from capmeter.core.output_files import check_targets
from capmeter.core.progress import show_progress
from capmeter.evaluation.registry import parse, parse_list
from capmeter.report.figures import save_figures
from capmeter_research.cli.captioner_study import app as captioner_app
from capmeter_research.cli.lceval_study import lceval
from capmeter_research.cli.leic_study import app as leic_app
from capmeter_research.cli.machines import machines
from capmeter_research.papers.lceval.experiments.distribution import of_benchmark
from capmeter_research.papers.lceval.experiments.distribution_report import (
    distribution_figure,
    distribution_table,
    distribution_to_dict,
)
from capmeter_research.papers.smurf.experiments import report
from capmeter_research.papers.smurf.experiments.cases import CAUSES, read_sheet, write_sheet
from capmeter_research.papers.smurf.experiments.cases import tally as tally_causes
from capmeter_research.papers.smurf.experiments.degradation import degradation as measure_degradation
from capmeter_research.papers.smurf.experiments.degradation import read_sentences
from capmeter_research.papers.smurf.experiments.failure_cases import critical_failures
from capmeter_research.papers.smurf.experiments.grammar import grammar as compare_with_human_scores
from capmeter_research.papers.smurf.experiments.grammar import read_corrections
from capmeter_research.papers.smurf.experiments.rankings import read_system_scores
from capmeter_research.papers.smurf.experiments.ties import tie_free, without_own
from capmeter_research.papers.tbr.experiments.ablation import ablation, ablation_table, ablation_to_dict
from capmeter_research.papers.umic.experiments.worst_captions import (
    TYPES,
    error_table,
    errors_to_dict,
    read_error_sheet,
    with_labels,
    worst_captions,
    write_error_sheet,
)

app = Application(no_args_is_help=True, help="Study metrics on your own data.")
app.add_typer(leic_app, name="leic")
app.add_typer(captioner_app, name="captioner")


@dataclass(frozen=True, kw_only=True)
class StudyOptions:
    """How a study is run: encoders, resampling, and figures."""

    seed: int = seed_option()
    resamples: int = resamples_option()
    compute: DeviceOptions = DeviceOptions()
    plot: list[Path] = plot_option()

    @property
    def sampling(self) -> dict[str, Any]:
        """The arguments that all studies take."""
        return {"seed": self.seed, "resamples": self.resamples, "settings": self.compute.settings()}


@dataclass(frozen=True, kw_only=True)
class DegradationOptions:
    """The sentences, and the encoders."""

    text: str = argument(help="A plain text (.txt), or captions in any format.", metavar="FILE")
    encoder: list[str] = encoder_option(["minilm"])
    load: LoadOptions = option_group(LoadOptions, "columns")
    sample: int = option(25, "Number of sentences to sample.", minimum=2)
    steps: int = option(20, "Number of steps until all words are replaced.", minimum=1)
    study: StudyOptions = StudyOptions()


@app.command()
def degradation(options: DegradationOptions, table: FormatOptions) -> None:
    """Replace more and more words with random ones, and measure MIMA (SMURF, Figure 5).

    `capmeter study degradation articles.txt -e minilm -e roberta --plot degradation.png`
    """
    check_targets(*options.study.plot)
    with show_progress():
        curves = measure_degradation(
            read_sentences(options.text, options.load.columns),
            list(dict.fromkeys(options.encoder)),
            sample=options.sample,
            steps=options.steps,
            **options.study.sampling,
        )
    if options.study.plot:
        save_figures(report.degradation_figure(curves), options.study.plot)
    show(report.degradation_table(curves), report.degradation_to_dict(curves), table.format)


def _key_option() -> Any:
    return option(None, "The field of the score in the rows of --human.")


@dataclass(frozen=True, kw_only=True)
class GrammarOptions:
    """The corrected sentences, and the human scores of the systems."""

    sentences: str = argument(
        help="Rows with `systems: {name: sentence}`, or captions of several systems.", metavar="FILE"
    )
    human: str = option(..., "Human scores of the systems: {system: score}, rows, or rankings.", "--human", "-H")
    key: str | None = _key_option()
    metrics: str = metrics_option("mima(encoder=minilm)")
    load: LoadOptions = option_group(LoadOptions, "columns")
    exclude: list[str] = option([], "Leave this system out (such as INPUT); repeatable.")
    study: StudyOptions = StudyOptions()


@app.command()
def grammar(options: GrammarOptions, table: FormatOptions) -> None:
    """Compare metrics with human scores of grammar correction systems (SMURF, Table 1).

    `capmeter study grammar sentences.jsonl --human judgments.jsonl -m "mima(encoder=minilm)" --plot grammar.png`
    """
    check_targets(*options.study.plot)
    with show_progress():
        corrections = read_corrections(options.sentences, options.load.columns)
        systems = {name: corrected for name, corrected in corrections.items() if name not in options.exclude}
        scores = read_system_scores(options.human, options.key)
        comparison = compare_with_human_scores(systems, scores, parse_list(options.metrics), **options.study.sampling)
    if options.study.plot:
        save_figures(report.grammar_figure(comparison), options.study.plot)
    show(report.grammar_table(comparison), report.grammar_to_dict(comparison), table.format)


@dataclass(frozen=True, kw_only=True)
class FailureOptions:
    """The systems with their human scores, and the metrics."""

    files: list[str] = systems_argument()
    human: str = option(..., "Human scores of the systems: {system: score}, or rows.", "--human", "-H")
    key: str | None = _key_option()
    load: LoadOptions = option_group(LoadOptions, "references", "columns")
    metrics: str = metrics_option("cider-d,meteor,rouge-l,bleu-4")
    against: str = option("smurf(encoder=minilm)", "The reference metric.", "--against", "-a")
    worst: int = option(20, "Number of worst cases to include (--format json, --sheet).", minimum=0)
    sheet: Path | None = option(
        None, "Write the worst cases to this file (CSV) for manual labelling; `study tally` reads the file back."
    )
    study: StudyOptions = StudyOptions()


@app.command()
def failures(options: FailureOptions, table: FormatOptions) -> None:
    """Count the images on which a metric reverses the order of systems (SMURF, Table 5).

    `capmeter study failures rows.jsonl --human m2.json -m cider-d,meteor -a "smurf(encoder=minilm)" --plot f.png`
    """
    check_targets(*options.study.plot)
    with show_progress():
        failure_counts = critical_failures(
            load_named_systems(options.files, options.load),
            read_system_scores(options.human, options.key),
            parse_list(options.metrics),
            parse(options.against),
            worst=options.worst,
            **options.study.sampling,
        )
    if options.study.plot:
        save_figures(report.failure_figure(failure_counts), options.study.plot)
    sheet = options.sheet
    if sheet is not None:
        cases = write_sheet(failure_counts, sheet)
        echo(f"wrote {sheet}: {cases:,} cases; write {', '.join(CAUSES)} into the column cause, then `study tally`")
    show(report.failure_table(failure_counts), report.failure_to_dict(failure_counts), table.format)


@dataclass(frozen=True, kw_only=True)
class TallyOptions:
    """The labelled cases."""

    sheet: Path = argument(help="The sheet of `study failures --sheet`, labelled.", metavar="SHEET.csv")
    cause: list[str] = option(
        list(CAUSES), "A cause that the sheet may name; repeatable (default: the paper's causes)."
    )
    seed: int = seed_option()
    resamples: int = resamples_option()


@app.command()
def tally(options: TallyOptions, table: FormatOptions) -> None:
    """Count the causes of failures in a labelled sheet of cases (SMURF, Table 5).

    `capmeter study failures rows.jsonl --human m2.json -m cider-d --sheet cases.csv`, label it, then
    `capmeter study tally cases.csv`
    """
    causes = options.cause
    counts = tally_causes(read_sheet(options.sheet, causes), causes, resamples=options.resamples, seed=options.seed)
    show(report.tally_table(counts), report.tally_to_dict(counts), table.format)


@dataclass(frozen=True, kw_only=True)
class TieOptions:
    """Captions with the ratings of two groups, and the metrics."""

    experts: str = argument(help="Captions with the experts' ratings (`human`).", metavar="EXPERTS")
    crowd: str = argument(help="Captions with another group's ratings.", metavar="CROWD")
    metrics: str = metrics_option("sparcs,cider-d,rouge-l,bleu-1")
    load: LoadOptions = option_group(LoadOptions, "columns")
    keep_references: bool = option(False, "Keep candidates that also occur as a reference.")
    study: StudyOptions = StudyOptions()


@app.command()
def ties(options: TieOptions, table: FormatOptions) -> None:
    """Compare metrics, and a second group of raters, with experts on tie-free pairs (SMURF, Table 4).

    `capmeter study ties flickr8k_expert.jsonl.gz flickr8k_cf.jsonl.gz -m sparcs,cider-d,meteor --plot ties.png`
    """
    check_targets(*options.study.plot)
    with show_progress():
        expert_ratings = load(options.experts, options=options.load)
        if not options.keep_references:
            expert_ratings = without_own(expert_ratings)
        crowd_ratings = load(options.crowd, options=options.load)
        agreement = tie_free(expert_ratings, crowd_ratings, parse_list(options.metrics), **options.study.sampling)
    if options.study.plot:
        save_figures(report.tie_figure(agreement), options.study.plot)
    show(report.tie_table(agreement), report.tie_to_dict(agreement), table.format)


@dataclass(frozen=True, kw_only=True)
class AblationOptions:
    """The challenge's table, and scores of its teams."""

    data: Path = option(..., "The file of the benchmark coco2015.", "--data", "-d")
    scores: list[Path] = option(
        ..., "Scores of the twelve teams: {metric: {team: score}}; repeatable.", "--scores", "-s"
    )


@app.command()
def tbr(options: AblationOptions, table: FormatOptions) -> None:
    """Correlate scores of the COCO challenge's teams with M1 and M2, next to TBR's ablation (Table 2).

    `capmeter study tbr -d coco2015.jsonl.gz --scores scores.json`
    """
    ablation_rows = ablation(options.data, options.scores)
    show(ablation_table(ablation_rows), ablation_to_dict(ablation_rows), table.format)


@dataclass(frozen=True, kw_only=True)
class DistributionOptions:
    """The benchmarks."""

    benchmarks: list[str] = argument(
        help="Benchmarks of rated captions, each with its file: capeval1k=FILE.", metavar="BENCHMARK=FILE..."
    )
    sample: bool = option(False, "Accept files that are subsets of their benchmark.")
    plot: list[Path] = plot_option()

    def __post_init__(self) -> None:
        for benchmark_text in self.benchmarks:
            if "=" not in benchmark_text:
                raise InputError(f"{benchmark_text!r} is not BENCHMARK=FILE")


@app.command()
def distribution(options: DistributionOptions, table: FormatOptions) -> None:
    """Show how human scores are distributed in benchmarks (UMIC, Figure 4).

    `capmeter study distribution capeval1k=capeval1k.jsonl.gz composite=composite.jsonl.gz --plot scores.png`
    """
    check_targets(*options.plot)
    distributions = []
    for benchmark_text in options.benchmarks:
        benchmark_name, _, path = benchmark_text.partition("=")
        distributions.append(of_benchmark(benchmark_name, path, sample=options.sample))
    if options.plot:
        save_figures(distribution_figure(distributions), options.plot)
    show(distribution_table(distributions), distribution_to_dict(distributions), table.format)


@dataclass(frozen=True, kw_only=True)
class ErrorOptions:
    """The benchmark, how many of its captions, and a person's labels."""

    benchmark: str = argument(help="A benchmark of rated captions with its file.", metavar="BENCHMARK=FILE")
    protocol: str | None = option(None, "Which captions of the benchmark (default: those of its first protocol).")
    number: int = option(100, "Number of captions with the lowest ratings.", minimum=1)
    sample: bool = option(False, "Accept a file that is a subset of its benchmark.")
    sheet: Path | None = option(None, "Write the captions to this file (CSV) for manual labelling.")
    labelled: Path | None = option(None, "The sheet with a person's labels in the column type.")
    seed: int = seed_option()

    def __post_init__(self) -> None:
        if "=" not in self.benchmark:
            raise InputError(f"{self.benchmark!r} is not BENCHMARK=FILE")


@app.command()
def errors(options: ErrorOptions, table: FormatOptions) -> None:
    """List the worst-rated captions of a benchmark by type of error (UMIC, section 3.2).

    A type is suggested by the words of a caption; `--sheet` writes the captions for a person, `--labelled` counts the
    person's types beside.

    `capmeter study errors composite=composite.jsonl.gz --protocol machines --sheet errors.csv`
    """
    benchmark_name, _, path = options.benchmark.partition("=")
    labels = {} if options.labelled is None else read_error_sheet(options.labelled)
    with show_progress():
        captions = worst_captions(
            benchmark_name, path, options.number, protocol=options.protocol, sample=options.sample, seed=options.seed
        )
    captions = with_labels(captions, labels)
    if options.sheet is not None:
        write_error_sheet(captions, options.sheet)
        *other_types, last = TYPES
        echo(f"wrote {options.sheet}: write {', '.join(other_types)} or {last} into the column type, then --labelled")
    show(error_table(captions), errors_to_dict(captions), table.format)


app.command()(lceval)
app.command()(machines)
