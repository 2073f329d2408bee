"""Options that several commands share: one name, one meaning, one line of help, one exit code where a value is wrong.

A command writes `format: Format = "table"`. A value that is not among an option's choices, and a metric that does not
exist, are mistakes in calling the command (exit code 2).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from capmeter.captions.formats import NAMES
from capmeter.errors import InputError
from capmeter.metrics.registry import parse_list
from capmeter.report.figures import image_kind
from capmeter.report.tables import FORMATS
from capmeter.settings import PRECISIONS, Settings


def one_of(names: Iterable[str], metavar: str | None = None) -> dict[str, Any]:
    """What makes an option take one of these names: its check, and what stands for its value in the help."""
    allowed = tuple(names)

    def check(value: str | None) -> str | None:
        """The name, if it is one of them."""
        if value is not None and value not in allowed:
            raise typer.BadParameter(f"{value!r} is not one of {', '.join(allowed)}")
        return value

    return {"callback": check, "metavar": metavar or "|".join(allowed)}


def _metrics(value: Any) -> Any:
    """The metrics' names as they were given, if they are names of metrics."""
    try:
        if value:
            parse_list(value)
    except InputError as problem:
        raise typer.BadParameter(str(problem)) from problem
    return value


def _judged_metrics(value: str) -> str:
    """The names as they were given, if they are names of metrics or of baselines."""
    from capmeter.meta.scored import named_metrics  # which only `meta` needs

    try:
        if value:
            named_metrics(value)
    except InputError as problem:
        raise typer.BadParameter(str(problem)) from problem
    return value


def _plots(value: list[Path]) -> list[Path]:
    """The files to draw, if their names say a kind of picture."""
    try:
        for path in value:
            image_kind(path)
    except InputError as problem:
        raise typer.BadParameter(str(problem)) from problem
    return value


# what goes in
Files = Annotated[
    list[str],
    typer.Argument(
        help="Files of captions, each of one system or several. `NAME=FILE` names the system.", metavar="FILE..."
    ),
]
References = Annotated[
    str | None, typer.Option("--references", "-r", help="The references, in any format, if in a separate file.")
]
System = Annotated[str | None, typer.Option("--system", help="Of several systems in one file, take this one alone.")]
Split = Annotated[
    str | None, typer.Option("--split", help="Take the images of this split alone (Karpathy's files name it).")
]
OnMissing = Annotated[
    str,
    typer.Option(
        "--on-missing",
        help="Captions without references: stop, leave them out, or keep them for metrics that need none.",
        **one_of(("error", "skip", "keep")),
    ),
]
OnMissingPaired = Annotated[
    str,
    typer.Option(
        "--on-missing",
        help="Captions without references: stop, or leave them out.",
        **one_of(("error", "skip")),
    ),
]
Columns = Annotated[
    list[str], typer.Option("--column", help="Which column holds what: candidate=NAME, references=NAME …; repeatable.")
]
InputFormat = Annotated[
    str | None,
    typer.Option("--input-format", help=f"Override format detection: {', '.join(NAMES)}.", **one_of(NAMES, "FORMAT")),
]
ReferencesFormat = Annotated[
    str | None,
    typer.Option(
        "--references-format",
        help="Override format detection for the references.",
        **one_of(NAMES, "FORMAT"),
    ),
]
Reading = Annotated[
    str | None,
    typer.Option(
        "--side",
        help="Read the file as candidates or as references (default: its form tells).",
        **one_of(("candidates", "references")),
    ),
]

# what is computed, and where
Metrics = Annotated[
    str,
    typer.Option("--metrics", "-m", help="Names, separated by commas; `capmeter list` shows them.", callback=_metrics),
]
JudgedMetrics = Annotated[
    str,
    typer.Option(
        "--metrics",
        "-m",
        help="Names, separated by commas; `capmeter list` shows them. Also baselines: gleu (on conll14).",
        callback=_judged_metrics,
    ),
]
Encoders = Annotated[
    list[str],
    typer.Option("--encoder", "-e", help="An encoder: an alias, a hub id or a folder; repeatable."),
]
Encoder = Annotated[str, typer.Option("--encoder", "-e", help="An encoder: an alias, a hub id or a folder.")]
Device = Annotated[
    str | None,
    typer.Option(
        "--device", help="Where neural metrics run: cpu, cuda, cuda:1 or mps (default: a GPU where there is one)."
    ),
]
Precision = Annotated[
    str | None,
    typer.Option("--precision", help="Of neural metrics (default: float32).", **one_of(PRECISIONS)),
]
Resamples = Annotated[int, typer.Option("--resamples", help="How many bootstrap resamples.", min=10)]
Seed = Annotated[int, typer.Option("--seed", help="Seed of everything random in this command.", min=0)]
Level = Annotated[float, typer.Option("--level", help="Confidence of intervals and ranks.", min=0.5, max=0.999)]

# what comes out
Format = Annotated[str, typer.Option("--format", "-f", help="What to print.", **one_of(FORMATS))]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Write everything here (JSON).")]
Plots = Annotated[
    list[Path],
    typer.Option("--plot", help="Draw a figure here: .png, .svg or .pdf; repeatable.", callback=_plots),
]
Digits = Annotated[
    int | None,
    typer.Option(
        "--digits", help="Decimals of the scores in a table (default: 4, or 2 with --scale 100).", min=0, max=12
    ),
]
Scale = Annotated[
    float,
    typer.Option(
        "--scale",
        help="Multiply the scores of a table by this, as papers print them: 100. JSON and CSV keep them as they are.",
        min=1e-6,
        max=1e6,
    ),
]


def settings_of(device: str | None, precision: str | None = None) -> Settings:
    """`--device` and `--precision` as settings; what was not given comes from the environment."""
    given: dict[str, Any] = {"device": device, "precision": precision}
    return Settings(**{key: value for key, value in given.items() if value is not None})
