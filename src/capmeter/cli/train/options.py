"""Options that several kinds of training share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from capmeter.cli.options import one_of
from capmeter.learning.recipe import PRECISIONS

Exclusions = Annotated[
    Path,
    typer.Option("--exclusions", help="Photos of benchmarks, whose captions are never used (gzipped JSON)."),
]
Threads = Annotated[
    int, typer.Option("--threads", help="Number of threads; another number gives slightly different weights.", min=1)
]
Epochs = Annotated[int | None, typer.Option("--epochs", help="The number of epochs.", min=1)]
Steps = Annotated[int | None, typer.Option("--steps", help="Steps per epoch.", min=1)]
TrainingPrecision = Annotated[
    str, typer.Option("--precision", help="Precision of the forward pass in training.", **one_of(PRECISIONS))
]
Runs = Annotated[int, typer.Option("--runs", help="Train with this many seeds; shows mean and spread.", min=1)]


def need_torch() -> None:
    """Raises `MissingBackend` where torch is not installed."""
    from capmeter.encoders.models import require_neural

    require_neural()
