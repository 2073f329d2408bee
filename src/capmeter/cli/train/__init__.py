"""`capmeter train`: trains the models that capmeter ships, one file per model."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer

from capmeter.cli.main import say
from capmeter.cli.train.capmeter import capmeter
from capmeter.cli.train.captioner import captioner
from capmeter.cli.train.encoder import encoder
from capmeter.cli.train.factual import factual
from capmeter.cli.train.lceval import lceval
from capmeter.cli.train.leic import leic
from capmeter.cli.train.parser import parser
from capmeter.cli.train.regressor import regressor
from capmeter.cli.train.umic import import_uniter, umic
from capmeter.cli.train.world_clip import world_clip
from capmeter.cli.train.world_encoder import world_encoder
from capmeter.cli.train.world_reader import world_reader
from capmeter.cli.train.writer import writer

app = typer.Typer(add_completion=False, rich_markup_mode="markdown", no_args_is_help=True)


@app.callback()
def train() -> None:
    """Train the models that capmeter ships."""


def _with_curves(command: Callable[..., None]) -> Callable[..., None]:
    """The command, which also draws the course of what it trained, beside each log (where matplotlib is installed)."""

    @wraps(command)
    def run(**options: Any) -> None:
        command(**options)
        folder = options["output"]
        if folder is not None and find_spec("matplotlib") is not None:
            from capmeter.report.curves import draw_curves

            for picture in draw_curves(Path(folder)):
                say(f"curves: {picture}")

    return run


app.command("import-uniter")(import_uniter)
app.command()(_with_curves(capmeter))
app.command()(_with_curves(lceval))
app.command()(_with_curves(leic))
app.command()(_with_curves(umic))
app.command()(_with_curves(parser))
app.command()(_with_curves(encoder))
app.command()(_with_curves(factual))
app.command()(_with_curves(writer))
app.command()(_with_curves(regressor))
app.command()(_with_curves(captioner))
app.command("world-encoder")(_with_curves(world_encoder))
app.command("world-reader")(_with_curves(world_reader))
app.command("world-clip")(_with_curves(world_clip))
