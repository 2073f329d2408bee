"""`capmeter train`: trains the models that capmeter ships, one file per model."""

from __future__ import annotations

import typer

from capmeter.cli.train.factual import factual
from capmeter.cli.train.lceval import lceval
from capmeter.cli.train.leic import leic
from capmeter.cli.train.parser import parser
from capmeter.cli.train.regressor import regressor
from capmeter.cli.train.umic import import_uniter, umic
from capmeter.cli.train.world_clip import world_clip
from capmeter.cli.train.world_encoder import world_encoder
from capmeter.cli.train.writer import writer

app = typer.Typer(add_completion=False, rich_markup_mode="markdown", no_args_is_help=True)


@app.callback()
def train() -> None:
    """Train the models that capmeter ships."""


app.command()(leic)
app.command()(parser)
app.command()(factual)
app.command("world-encoder")(world_encoder)
app.command()(lceval)
app.command()(writer)
app.command()(umic)
app.command("import-uniter")(import_uniter)
app.command("world-clip")(world_clip)
app.command()(regressor)
