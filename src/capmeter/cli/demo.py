"""`capmeter demo`: the example captions, their scores and their page, in a folder of their own."""

from __future__ import annotations

from pathlib import Path

import typer

from capmeter.captions.io import load
from capmeter.cli.main import say
from capmeter.cli.options import Format
from capmeter.cli.output import command_line, show_scores
from capmeter.errors import AssetError, InputError
from capmeter.meta.standing import standings
from capmeter.metrics.evaluation import evaluate
from capmeter.metrics.registry import parse_list
from capmeter.metrics.scores import save_all
from capmeter.progress import shown

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
SYSTEMS = ("human", "strong", "weak", "broken")
REFERENCES = "references.json"
# all that the core can compute alone, in a second
METRICS = "bleu-1,bleu-4,rouge-l,cider-d,sparcs,tbr-unigram"


@app.command()
def demo(
    folder: Path = typer.Argument(Path("capmeter-demo"), help="The folder to write; it must be new or empty."),
    format: Format = "table",
) -> None:
    """Write example captions, their scores and the page that shows them.

    The folder gets the captions of four systems (`human.json`, `strong.json`, `weak.json`, `broken.json`), the
    references (`references.json`), the scores of every caption (`scores.json`) and the page (`report.html`, which needs
    the extra `report`). All captions were written for capmeter and are under its licence.

    **Examples**

    `capmeter demo`

    `capmeter demo somewhere`, then `capmeter view somewhere/scores.json`
    """
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise InputError(f"{folder} is there and not an empty folder; name another: capmeter demo FOLDER")
    source = _examples()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in (REFERENCES, *(f"{system}.json" for system in SYSTEMS)):
            (folder / name).write_bytes((source / name).read_bytes())
    except OSError as problem:
        raise InputError(f"{folder} cannot be written ({problem.strerror or problem})") from None
    with shown():
        chosen = parse_list(METRICS)
        systems = {system: evaluate(load(folder / f"{system}.json", folder / REFERENCES), chosen) for system in SYSTEMS}
        standing = standings(systems)
    for results in systems.values():
        results.command = command_line()
    save_all(systems, folder / "scores.json")
    show_scores(systems, standing, format)
    say(f"wrote {folder}: captions, references and scores.json")
    from capmeter.report.page import write_page  # the extra may be missing: all the rest is written by now

    with shown():
        write_page(systems, folder / "report.html", title="Example captions", images="none", command=command_line())
    say(f"wrote {folder / 'report.html'}: open it in a browser, or run capmeter view {folder / 'scores.json'}")


def _examples() -> Path:
    """The folder of the example captions: inside the installed package, or in the project's source tree."""
    package = Path(__file__).resolve().parents[1]
    for place in (package / "examples", package.parents[1] / "examples"):
        if (place / REFERENCES).is_file():
            return place
    raise AssetError("the example captions are not in this installation; reinstall capmeter")
