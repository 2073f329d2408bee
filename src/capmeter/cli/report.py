"""`capmeter report`: one page of scores, explanations and plots."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from capmeter.cli.command import Application
from capmeter.cli.inputs import name_and_path, open_systems
from capmeter.cli.main import echo
from capmeter.cli.options import TableOptions, resamples_option, seed_option
from capmeter.cli.output import command_line, refuse_shared_files, show_scores
from capmeter.core.messages import format_count
from capmeter.core.options import argument, option, option_group
from capmeter.core.progress import show_progress
from capmeter.evaluation.results import read_all
from capmeter.meta.system_ranking import rank_systems
from capmeter.report.page import MODES
from capmeter.report.tables import FORMATS

app = Application()


@dataclass(frozen=True, kw_only=True)
class _ReportOptions:
    """What is on the page, and what is printed."""

    results: list[str] = argument(
        help="Files that `capmeter score --output` wrote. `NAME=FILE` names the system.", metavar="RESULTS.json..."
    )
    output: Path | None = option(None, "The file of the page (default: report.html).", "--output", "-o")
    format: str | None = option(
        None, "Print the table of scores. Without -o, no page is written.", "--format", "-f", choices=FORMATS
    )
    table: TableOptions = option_group(TableOptions, without=("format",))
    title: str = option("Caption scores", "The page's heading.")
    explain: int = option(500, "Keep explanations for at most this many captions, if they fit.", minimum=0)
    images: str = option("link", "Pictures; embed: thumbnails of files.", choices=MODES)
    images_root: Path = option(Path(), "The folder that relative paths of pictures are resolved against.")
    regions: str = option("", "Pictures' regions for metrics that need them: a folder of .npz files, or an LMDB.")
    megabytes: float = option(20.0, "Add explanations and thumbnails up to this page size.", minimum=1)
    resamples: int = resamples_option()
    seed: int = seed_option()


@app.command()
def report(options: _ReportOptions) -> None:
    """Write one page with scores, plots, every caption, and explanations of its scores.

    The page is one file and needs no network: table with intervals and significance, distributions, metrics against
    each other, the searchable list of captions with explanations, signatures, and the commands that produced it.

    **Examples**

    `capmeter score a.json b.json -r refs.json -m bleu-4,rouge-l,cider-d --output scores.json`

    `capmeter report scores.json -o report.html`

    `capmeter report scores.json --regions coco_val2014/ --images-root val2014/ --images embed -o cases.html`

    `capmeter report scores.json --format latex --scale 100 --digits 1`
    """
    refuse_shared_files([name_and_path(each)[1] for each in options.results], output=options.output)
    systems = open_systems(options.results, read_all)
    for results in systems.values():
        if results.captions is not None:
            results.captions.regions = options.regions
    if options.format is not None:
        rankings = rank_systems(systems, resamples=options.resamples, seed=options.seed)
        show_scores(systems, rankings, **vars(options.table) | {"format": options.format})
        if options.output is None:
            return
    from capmeter.report.page import write_page

    with show_progress():
        page = write_page(
            systems,
            options.output or Path("report.html"),
            title=options.title,
            explained=options.explain,
            images=options.images,
            images_root=options.images_root,
            megabytes=options.megabytes,
            resamples=options.resamples,
            seed=options.seed,
            command=command_line(),
        )
    echo(
        f"wrote {page.path} ({page.size / 1e6:.1f} MB): {format_count(page.captions, 'caption')}, "
        f"{page.explained:,} of them explained"
    )
