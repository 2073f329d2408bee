"""`capmeter report`: one page that shows what the numbers mean."""

from __future__ import annotations

from pathlib import Path

import typer

from capmeter.cli.inputs import label_of, name_and_path
from capmeter.cli.main import say
from capmeter.cli.output import command_line
from capmeter.metrics.scores import Results, read_all
from capmeter.progress import shown
from capmeter.report.pictures import MODES

app = typer.Typer(rich_markup_mode="markdown")


@app.command()
def report(
    results: list[str] = typer.Argument(
        ...,
        help="Files that `capmeter score --output` wrote. `NAME=FILE` names the system.",
        metavar="RESULTS.json...",
    ),
    output: Path = typer.Option(Path("report.html"), "--output", "-o", help="The page's file."),
    title: str = typer.Option("Caption scores", help="The page's heading."),
    explain: int = typer.Option(500, help="For how many captions explanations are kept, if they fit.", min=0),
    images: str = typer.Option("link", help=f"Pictures: {', '.join(MODES)} (thumbnails of files)."),
    images_root: Path = typer.Option(Path(), help="The folder that relative paths of pictures start from."),
    megabytes: float = typer.Option(5.0, help="Explanations and thumbnails fill the page up to this size.", min=1),
    human: str | None = typer.Option(None, help="The system that people are, for SMURF's overlap with them."),
    draws: int = typer.Option(1000, help="How many bootstrap draws.", min=10),
    seed: int = typer.Option(0, help="Seed of the draws."),
) -> None:
    """Write one page with scores, plots, every caption, and why it was scored so.

    The page is one file and needs no network: table with intervals and significance, distributions, metrics against
    each other, the searchable list of captions with explanations, signatures, and the commands that made it.

    **Examples**

    `capmeter score a.json b.json -r refs.json -m bleu-4,rouge-l,cider-d --output scores.json`

    `capmeter report scores.json -o report.html`
    """
    if images not in MODES:
        raise typer.BadParameter(f"{images!r} is not one of {', '.join(MODES)}", param_hint="--images")
    from capmeter.report.page import write_page

    with shown():
        written = write_page(
            read_named(results),
            output,
            title=title,
            explained=explain,
            images=images,
            images_root=images_root,
            megabytes=megabytes,
            human=human,
            draws=draws,
            seed=seed,
            command=command_line(),
        )
    say(
        f"wrote {written.path} ({written.size / 1e6:.1f} MB): {written.captions:,} captions, "
        f"{written.explained:,} of them explained"
    )


def read_named(given: list[str]) -> dict[str, Results]:
    """The systems of these files; `NAME=FILE` renames the system of a file that holds one."""
    systems: dict[str, Results] = {}
    for each in given:
        name, path = name_and_path(each)
        found = read_all(path)
        for system, results in found.items():
            systems[label_of(name, system, len(found) == 1, systems)] = results
    return systems
