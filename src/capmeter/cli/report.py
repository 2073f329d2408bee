"""`capmeter report`: one page that shows what the numbers mean."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from capmeter.cli.inputs import label_of, name_and_path
from capmeter.cli.main import say
from capmeter.cli.options import Digits, Regions, Resamples, Scale, Seed, one_of
from capmeter.cli.output import command_line, show_scores
from capmeter.meta.standing import standings
from capmeter.metrics.scores import Results, read_all
from capmeter.progress import shown
from capmeter.report.pictures import MODES
from capmeter.report.tables import FORMATS

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")


@app.command()
def report(
    results: list[str] = typer.Argument(
        ...,
        help="Files that `capmeter score --output` wrote. `NAME=FILE` names the system.",
        metavar="RESULTS.json...",
    ),
    output: Path | None = typer.Option(None, "--output", "-o", help="The file of the page (default: report.html)."),
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            "-f",
            help="Print the table of scores. Without -o there is no page.",
            **one_of(FORMATS),
        ),
    ] = None,
    digits: Digits = None,
    scale: Scale = 1,
    title: str = typer.Option("Caption scores", help="The page's heading."),
    explain: int = typer.Option(500, help="Keep explanations for at most this many captions, if they fit.", min=0),
    images: Annotated[
        str, typer.Option("--images", help="Pictures; embed: thumbnails of files.", **one_of(MODES))
    ] = "link",
    images_root: Path = typer.Option(Path(), help="The folder that relative paths of pictures are resolved against."),
    regions: Regions = "",
    megabytes: float = typer.Option(5.0, help="Add explanations and thumbnails up to this page size.", min=1),
    human: str | None = typer.Option(None, help="The system that holds human captions, for SMURF's overlap."),
    training: list[Path] = typer.Option(
        [], "--training", help="Show the curves of a folder of `capmeter train`; repeatable."
    ),
    resamples: Resamples = 1000,
    seed: Seed = 0,
) -> None:
    """Write one page with scores, plots, every caption, and explanations of its scores.

    The page is one file and needs no network: table with intervals and significance, distributions, metrics against
    each other, the searchable list of captions with explanations, signatures, and the commands that made it.

    **Examples**

    `capmeter score a.json b.json -r refs.json -m bleu-4,rouge-l,cider-d --output scores.json`

    `capmeter report scores.json -o report.html`

    `capmeter report scores.json --regions coco_val2014/ --images-root val2014/ --images embed -o cases.html`

    `capmeter report scores.json --training networks/lceval -o report.html`

    `capmeter report scores.json --format latex --scale 100 --digits 1`
    """
    systems = read_named(results)
    for each in systems.values():
        if each.captions is not None:
            each.captions.regions = regions
    if format is not None:
        standing = standings(systems, resamples=resamples, seed=seed)
        show_scores(systems, standing, format, digits=digits, scale=scale)
        if output is None:
            return
    from capmeter.report.page import write_page

    with shown():
        written = write_page(
            systems,
            output or Path("report.html"),
            title=title,
            explained=explain,
            images=images,
            images_root=images_root,
            megabytes=megabytes,
            human=human,
            resamples=resamples,
            seed=seed,
            command=command_line(),
            training=training,
        )
    say(
        f"wrote {written.path} ({written.size / 1e6:.1f} MB): {written.captions:,} captions, "
        f"{written.explained:,} of them explained"
    )


def read_named(given: list[str]) -> dict[str, Results]:
    """The systems of these files; `NAME=FILE` renames the system of a file with one system."""
    systems: dict[str, Results] = {}
    for each in given:
        name, path = name_and_path(each)
        found = read_all(path)
        for system, results in found.items():
            systems[label_of(name, system, len(found) == 1, systems)] = results
    return systems
