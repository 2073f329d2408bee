"""`capmeter demo`: the example captions, their scores and their page, in a new folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from capmeter.captions.load import load
from capmeter.cli.command import Application
from capmeter.cli.main import echo
from capmeter.cli.options import TableOptions
from capmeter.cli.output import command_line, show_scores
from capmeter.core.errors import AssetError, InputError, MissingBackend
from capmeter.core.options import argument
from capmeter.core.progress import show_progress
from capmeter.core.registry import other_packages
from capmeter.evaluation.registry import METRICS, parse_list
from capmeter.evaluation.results import save_all
from capmeter.evaluation.runner import evaluate
from capmeter.meta.system_ranking import rank_systems

app = Application()
SYSTEMS = ("human", "strong", "weak", "broken")
REFERENCES = "references.json"
# metrics that need no extra and take a second
DEMO_METRICS = "bleu-1,bleu-4,rouge-l,cider-d"


@dataclass(frozen=True, kw_only=True)
class _DemoOptions:
    """Where the demonstration is written, and what is printed."""

    folder: Path = argument(Path("capmeter-demo"), "The folder to write; it must be new or empty.")
    table: TableOptions = TableOptions()


@app.command()
def demo(options: _DemoOptions) -> None:
    """Write example captions, their scores and the page that shows them.

    The folder gets the captions of four systems (`human.json`, `strong.json`, `weak.json`, `broken.json`), the
    references (`references.json`), the scores of every caption (`scores.json`) and the page (`report.html`, where the
    extra `report` is installed). All captions were written for capmeter and are under its licence.

    **Examples**

    `capmeter demo`

    `capmeter demo somewhere`, then `capmeter view somewhere/scores.json`
    """
    folder = options.folder
    _copy_examples(folder)
    with show_progress():
        added = (name for package in other_packages().values() for name in package["demo_metrics"])
        metrics = parse_list(",".join([DEMO_METRICS, *(name for name in added if name in METRICS)]))
        systems = {name: evaluate(load(folder / f"{name}.json", folder / REFERENCES), metrics) for name in SYSTEMS}
        rankings = rank_systems(systems)
    for results in systems.values():
        results.command = command_line()
    save_all(systems, folder / "scores.json")
    show_scores(systems, rankings, **vars(options.table))
    echo(f"wrote {folder}: captions, references and scores.json")
    from capmeter.report.page import write_page

    try:
        with show_progress():
            write_page(systems, folder / "report.html", title="Example captions", images="none", command=command_line())
    except MissingBackend as missing:
        echo(f"report.html was not written: {missing}")
        return
    echo(f"wrote {folder / 'report.html'}: open it in a browser, or run capmeter view {folder / 'scores.json'}")


def _copy_examples(folder: Path) -> None:
    """Copies the example captions into a new or empty folder."""
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise InputError(f"{folder} exists and is not an empty folder; choose another: capmeter demo FOLDER")
    package_folder = Path(__file__).resolve().parents[1]  # in an installed package, or in the project's source tree
    possible_folders = (package_folder / "examples", package_folder.parents[1] / "examples")
    source_folder = next((each for each in possible_folders if (each / REFERENCES).is_file()), None)
    if source_folder is None:
        raise AssetError("the example captions are not in this installation; reinstall capmeter")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file_name in (REFERENCES, *(f"{system}.json" for system in SYSTEMS)):
            (folder / file_name).write_bytes((source_folder / file_name).read_bytes())
    except OSError as problem:
        raise InputError(f"{folder} cannot be written ({problem.strerror or problem})") from None
