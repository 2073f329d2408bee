"""`capmeter study`: the studies of the SMURF, LCEval and LEIC papers, on any data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capmeter.captions.load import load_references
from capmeter.captions.load_options import LoadOptions
from capmeter.cli.command import Application
from capmeter.cli.inputs import input_files, load_named_systems
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
from capmeter.cli.output import refuse_shared_files, show
from capmeter.core.messages import format_count
from capmeter.core.options import argument, option, option_group
from capmeter.core.output_files import check_targets, table_kind, write_table
from capmeter.core.progress import show_progress
from capmeter.evaluation.registry import parse_list
from capmeter.report.figures import save_figures
from capmeter.report.tables import Table
from capmeter_research.cli.leic_study import app as leic_app
from capmeter_research.cli.leic_study import show_part
from capmeter_research.cli.paper_tables import PaperOptions, write_paper
from capmeter_research.papers.diversity.diversity import measure_diversity
from capmeter_research.papers.lceval.experiments.study import PARTS, Networks, Study, run_part
from capmeter_research.papers.smurf.experiments.degradation import degradation as measure_degradation
from capmeter_research.papers.smurf.experiments.degradation import (
    degradation_figure,
    degradation_table,
    degradation_to_dict,
    read_sentences,
)
from capmeter_research.papers.wmt24.soft_accuracy import measure_rankings

app = Application(no_args_is_help=True, help="Study metrics on your own data.")
app.add_typer(leic_app, name="leic")


@app.command()
def paper(options: PaperOptions) -> None:
    """Make a paper's tables again: ours, the published ones, and why they differ, on one page.

    `capmeter study paper lceval --data DATA -o pages/`

    `capmeter study paper tbr --data DATA -o pages/ --quick`
    """
    with show_progress():
        write_paper(options)


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
class ByReferenceOptions:
    """The captions, the metrics, and the file of rows."""

    files: list[str] = systems_argument()
    output: Path = option(..., "Write the rows to this file: .parquet, .csv, .tsv or .jsonl.", "--output", "-o")
    load: LoadOptions = option_group(LoadOptions, "references", "columns")
    metrics: str = metrics_option()
    compute: DeviceOptions = DeviceOptions()


@app.command()
def by_reference(options: ByReferenceOptions) -> None:
    """Score every caption against each single reference (UMIC, Figure 1): a row each, with the spread.

    `capmeter study by-reference captions.json -r references.json -m cider-d,spice -o rows.csv`
    """
    refuse_shared_files(input_files(options.files, options.load), output=options.output)
    table_kind(options.output)
    import pyarrow

    from capmeter_research.papers.umic.by_reference import score_by_reference

    settings = options.compute.settings()
    with show_progress():
        rows = [
            {"system": name, **row}
            for name, captions in load_named_systems(options.files, options.load).items()
            for row in score_by_reference(captions, options.metrics, settings=settings)
        ]
    write_table(pyarrow.Table.from_pylist(rows), options.output)
    echo(f"wrote {options.output}: {format_count(len(rows), 'row', 'rows')}")


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
        save_figures(degradation_figure(curves), options.study.plot)
    show(degradation_table(curves), degradation_to_dict(curves), table.format)


@dataclass(frozen=True, kw_only=True)
class LcEvalStudyOptions:
    """The experiment, its data, and the networks."""

    part: str = argument(help=f"One of {', '.join(PARTS)}.", metavar="PART")
    data: Path = option(..., "The file of the benchmark that the part uses.")
    networks: Path | None = option(
        None, "Folder of `capmeter train lceval --network study` (default: the bundled networks)."
    )
    protocol: str | None = option(None, "Another protocol of the benchmark.")
    sample: bool = option(False, "The file is a subset of the benchmark.")
    compute: DeviceOptions = DeviceOptions()
    plot: list[Path] = plot_option()


@app.command()
def lceval(options: LcEvalStudyOptions, table: FormatOptions) -> None:
    """Repeat an experiment of the LCEval paper: architectures, features, agreement, accuracy, references, time.

    composite: architectures (Table 7.2), embeddings (7.3), main (7.4), groups (7.5, B.2), hwcm (7.6), accuracy (Figure
    7.8), machines (7.10), features (LCEval against each of its features). pascal50s: pascal (7.7), references (Figures
    7.10, B.1), machines-pairs (7.11). abstract50s: abstract (7.8), references-abstract. distractions:
    distractions (7.9). wmt16: wmt16 (B.1). Table 7.13 is `capmeter meta --benchmark coco2015`.

    `capmeter study lceval main --data composite.jsonl.gz`

    `capmeter study lceval main --data composite.jsonl.gz --protocol clipscore2021`

    `capmeter study lceval architectures --data composite.jsonl.gz --networks networks/`
    """
    check_targets(*options.plot)
    with show_progress():
        networks = Networks(options.networks)
        study = Study(options.data, networks, options.protocol, options.sample, options.compute.settings())
        part = run_part(options.part, study)
    show_part(part, options.plot, table)


@dataclass(frozen=True, kw_only=True)
class DiversityOptions:
    """The captions, and what Self-CIDEr compares them by."""

    captions: str = argument(help="Several captions of each image, in any layout of references.", metavar="FILE")
    load: LoadOptions = option_group(LoadOptions, "references", "columns")
    kernel: str = option("cider", "How Self-CIDEr compares two captions.", choices=("cider", "cider-d"))


@app.command()
def diversity(options: DiversityOptions, table: FormatOptions) -> None:
    """How much several captions of one image differ: Div-n, mBLEU and Self-CIDEr.

    `capmeter study diversity sampled.json -r captions_val2014.json`
    """
    captions = load_references(options.captions, options=options.load)
    documents = load_references(options.load.references, options=options.load) if options.load.references else None
    with show_progress():
        report = measure_diversity(captions, documents, kernel=options.kernel)
    cells = [f"{value:.4f}" for value in report.values.values()]
    title = f"diversity of the captions of {len(captions)} images"
    show(Table(title, list(report.values), [cells], [True] * len(cells)), report.to_dict(), table.format)


@dataclass(frozen=True, kw_only=True)
class RankingOptions:
    """The systems, with ratings by people, and the metrics."""

    files: list[str] = systems_argument()
    metrics: str = metrics_option()
    load: LoadOptions = option_group(LoadOptions, "references", "columns", "images_root")
    compute: DeviceOptions = DeviceOptions()


@app.command()
def wmt24(options: RankingOptions, table: FormatOptions) -> None:
    """How well metrics rank systems: WMT's soft pairwise accuracy, and accuracy with calibrated ties.

    `capmeter study wmt24 rated.jsonl -m rouge-l,cider-d`
    """
    with show_progress():
        systems = load_named_systems(options.files, options.load)
        part = measure_rankings(systems, parse_list(options.metrics), options.compute.settings())
    show_part(part, [], table)
