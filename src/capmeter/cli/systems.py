"""`capmeter systems`: whole captioning systems against people, with a scatter plot of meaning and style."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import typer

from capmeter.captions.columns import chosen_columns
from capmeter.captions.io import load_systems
from capmeter.captions.model import CaptionSet
from capmeter.cli.main import say
from capmeter.cli.options import Columns, Device, Files, Format, Plots, Precision, References, Seed, settings_of
from capmeter.cli.output import show
from capmeter.errors import InputError
from capmeter.meta import systems as whole
from capmeter.meta.held_out import held_out_of_all
from capmeter.metrics.smurf import Smurf
from capmeter.named import parameters_of
from capmeter.progress import shown
from capmeter.report.figures import save_figures
from capmeter.report.system_figure import system_figure, system_table, systems_to_dict

_PARAMETERS = parameters_of(Smurf)
app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
Each = TypeVar("Each")


@app.command()
def systems(
    files: Files,
    human: str = typer.Option(
        ..., "--human", "-H", help="Human captions: a file, or the name of a system in the files."
    ),
    references: References = None,
    column: Columns = [],
    hold_out: bool = typer.Option(
        False, "--hold-out", help="Remove each image's human caption from the references, for all systems."
    ),
    encoder: str = typer.Option("distilbert+distilroberta", "--encoder", "-e", help=f"{_PARAMETERS['encoder'].help}."),
    standard: str | None = typer.Option(None, help=f"{_PARAMETERS['standard'].help}."),
    scored: bool = typer.Option(
        False, "--scored", help="The files are results that `capmeter score --output` wrote (sparcs, mima, spurts)."
    ),
    plot: Plots = [],
    sample: int = typer.Option(100, help="How many images to sample for the points of the plot.", min=1),
    seed: Seed = 0,
    labels: bool = typer.Option(True, help="Print names and centroid captions in the figure."),
    device: Device = None,
    precision: Precision = None,
    format: Format = "table",
) -> None:
    """Compare whole systems with people: meaning, style, overlap, grammar.

    **Examples**

    `capmeter systems a.json b.json --human human.json -r refs.json -e minilm --plot systems.png --plot systems.svg`

    `capmeter systems rows.jsonl --human people --hold-out -e minilm --sample 200 --seed 7`
    """
    metric = Smurf(encoder=encoder, standard=standard)
    constants = metric.constants
    _, mima, spurts = (each.parameters().get("encoder", "") for each in metric.requires())
    given, people = list(files), human
    if Path(human).exists() or "=" in human:
        given.append(human)
        people = ""
    with shown():
        if scored:
            found = _gathered((each, whole.saved_components(_path(each), _name(each))) for each in given)
            people = people or list(found)[-1]
        else:
            captions = _gathered((each, _captions(each, references, chosen_columns(column))) for each in given)
            people = people or list(captions)[-1]
            whole.require_people(captions, people)
            if hold_out:
                captions = held_out_of_all(captions, people)
            found = whole.measure(captions, mima, spurts, settings_of(device, precision))
        analysed = whole.analyse(found, people, constants)
        if plot:
            drawn = system_figure(analysed, whole.sample(analysed, sample, seed), labels=labels)
            save_figures(drawn, plot)
    show(system_table(analysed), {"human": people, "by_system": systems_to_dict(analysed)}, format)
    say(f"note: constants: {constants.label} ({constants.source})")


def _captions(given: str, references: str | None, columns: dict[str, str]) -> dict[str, CaptionSet]:
    found = load_systems(_path(given), references, columns=columns)
    name = _name(given)
    return {name: next(iter(found.values()))} if name is not None and len(found) == 1 else found


def _gathered(files: Iterable[tuple[str, dict[str, Each]]]) -> dict[str, Each]:
    systems: dict[str, Each] = {}
    for given, several in files:
        for name, each in several.items():
            if name in systems:
                raise InputError(f"{given}: two systems have the name {name!r}; name each one: NAME=FILE")
            systems[name] = each
    return systems


def _name(given: str) -> str | None:
    name, equals, _ = given.partition("=")
    return name if equals and name and not Path(given).exists() else None


def _path(given: str) -> str:
    return given if _name(given) is None else given.partition("=")[2]
