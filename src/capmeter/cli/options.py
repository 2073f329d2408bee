"""Options that several commands share: one name, one meaning, one line of help, and one exit code for wrong values.

A command writes `format: Format = "table"`. A value that is not among an option's choices, and an unknown metric,
are usage errors (exit code 2).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from capmeter.captions.formats import NAMES
from capmeter.errors import InputError
from capmeter.metrics.registry import METRICS, parse_list
from capmeter.report.figures import image_kind
from capmeter.report.tables import FORMATS
from capmeter.settings import PRECISIONS, Settings


def one_of(names: Iterable[str], metavar: str | None = None) -> dict[str, Any]:
    """What restricts an option to these names: its check, and the placeholder of its value in the help."""
    allowed = tuple(names)

    def check(value: str | None) -> str | None:
        """The name, if it is one of them."""
        if value is not None and value not in allowed:
            raise typer.BadParameter(f"{value!r} is not one of {', '.join(allowed)}")
        return value

    def completions(incomplete: str) -> list[str]:
        """The names that begin so."""
        return [name for name in allowed if name.startswith(incomplete)]

    return {"callback": check, "metavar": metavar or "|".join(allowed), "autocompletion": completions}


def complete_metrics(incomplete: str) -> list[str]:
    """The names of metrics that may end this text, the last of several separated by commas."""
    before, comma, last = incomplete.rpartition(",")
    given = before.split(",")
    return [f"{before}{comma}{name}" for name in METRICS.names() if name.startswith(last) and name not in given]


def _metrics(value: Any) -> Any:
    """The metrics' names unchanged, if all of them are known."""
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


def _plots(value: Any) -> Any:  # on Python 3.10, typer takes list[Path] here for a class, and fails
    """The files to draw, if their names end in a picture format."""
    try:
        for path in value:
            image_kind(path)
    except InputError as problem:
        raise typer.BadParameter(str(problem)) from problem
    return value


# input
Files = Annotated[
    list[str],
    typer.Argument(
        help="Files of captions, each with one system or several. `NAME=FILE` names the system.", metavar="FILE..."
    ),
]
OptionalFiles = Annotated[
    list[str],
    typer.Argument(
        help="Files of captions, each with one system or several. `NAME=FILE` names the system.", metavar="FILE..."
    ),
]
References = Annotated[
    str | None, typer.Option("--references", "-r", help="The references, in any format, if in a separate file.")
]
System = Annotated[str | None, typer.Option("--system", help="Use only this system of a file with several.")]
Split = Annotated[
    str | None, typer.Option("--split", help="Use only the images of this split (named in Karpathy's files).")
]
Regions = Annotated[
    str,
    typer.Option("--regions", help="Pictures' regions for metrics that need them: a folder of .npz files, or an LMDB."),
]
OnMissing = Annotated[
    str,
    typer.Option(
        "--on-missing",
        help="Captions without references: stop, skip them, or keep them for metrics that need none.",
        **one_of(("error", "skip", "keep")),
    ),
]
OnMissingPaired = Annotated[
    str,
    typer.Option(
        "--on-missing",
        help="Captions without references: stop, or skip them.",
        **one_of(("error", "skip")),
    ),
]
Columns = Annotated[
    list[str],
    typer.Option("--column", help="Which column holds a field: candidate=NAME, references=NAME …; repeatable."),
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
        help="Read the file as candidates or as references (default: detected).",
        **one_of(("candidates", "references")),
    ),
]
ImagesRoot = Annotated[
    Path | None,
    typer.Option(
        "--images-root",
        help="The folder of the pictures, for metrics that need them: relative paths start here, and captions that "
        "name no picture have the file of their image id (also COCO's numbers).",
        exists=True,
        file_okay=False,
    ),
]

# computation
Engine = Annotated[
    str,
    typer.Option(
        "--engine",
        help="What runs the metrics: this machine's processes, or Ray (needs capmeter[ray]).",
        **one_of(("local", "ray")),
    ),
]
Metrics = Annotated[
    str,
    typer.Option(
        "--metrics",
        "-m",
        help="Names, separated by commas; `capmeter list` shows them.",
        callback=_metrics,
        autocompletion=complete_metrics,
    ),
]
JudgedMetrics = Annotated[
    str,
    typer.Option(
        "--metrics",
        "-m",
        help="Names, separated by commas; `capmeter list` shows them. Also baselines: gleu (on conll14).",
        callback=_judged_metrics,
        autocompletion=complete_metrics,
    ),
]
Encoders = Annotated[
    list[str],
    typer.Option("--encoder", "-e", help="An encoder: an alias, a Hugging Face hub id or a folder; repeatable."),
]
Encoder = Annotated[
    str, typer.Option("--encoder", "-e", help="An encoder: an alias, a Hugging Face hub id or a folder.")
]
Device = Annotated[
    str | None,
    typer.Option(
        "--device", help="Where neural metrics run: cpu, cuda, cuda:1 or mps (default: a GPU where there is one)."
    ),
]
Precision = Annotated[
    str | None,
    typer.Option("--precision", help="Precision of neural metrics (default: float32).", **one_of(PRECISIONS)),
]
Resamples = Annotated[int, typer.Option("--resamples", help="Number of bootstrap resamples.", min=10)]
Seed = Annotated[int, typer.Option("--seed", help="Seed of all random numbers in this command.", min=0)]
Level = Annotated[float, typer.Option("--level", help="Confidence level of intervals and ranks.", min=0.5, max=0.999)]

# output
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
        help="Multiply the scores in tables by this factor, such as 100 for papers. JSON and CSV are not scaled.",
        min=1e-6,
        max=1e6,
    ),
]


def settings_of(device: str | None, precision: str | None = None) -> Settings:
    """`--device` and `--precision` as settings; missing ones come from the environment."""
    given: dict[str, Any] = {"device": device, "precision": precision}
    return Settings(**{key: value for key, value in given.items() if value is not None})
