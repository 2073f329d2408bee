"""`capmeter train`: trains the models that capmeter ships, a command for each."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib.util import find_spec
from typing import Any

from capmeter.cli.command import Application
from capmeter.cli.main import echo
from capmeter_research.cli.train.capmeter import capmeter, capmeter_large
from capmeter_research.cli.train.captioner import captioner
from capmeter_research.cli.train.fluency import fluency
from capmeter_research.cli.train.lceval import lceval
from capmeter_research.cli.train.leic import leic
from capmeter_research.cli.train.parser import parser
from capmeter_research.cli.train.regressor import regressor
from capmeter_research.cli.train.scene_graph_parser import scene_graph_parser
from capmeter_research.cli.train.synthetic_scenes import attribute_reader, scene_clip, scene_encoder
from capmeter_research.cli.train.text_encoder import text_encoder
from capmeter_research.cli.train.umic import import_uniter, umic
from capmeter_research.cli.train.writer import writer

app = Application(no_args_is_help=True)


@app.callback()
def train() -> None:
    """Train the models that capmeter ships."""


def _with_curves(command: Callable[..., None]) -> Callable[..., None]:
    """The command, which also draws training curves into the folder of each log, if matplotlib is installed."""

    @wraps(command)
    def run(options: Any, table: Any) -> None:
        command(options, table)
        if options.output is not None and find_spec("matplotlib") is not None:
            from capmeter_research.common.training_curves import save_curves

            for picture in save_curves(options.output):
                echo(f"curves: {picture}")

    return run


app.command("import-uniter")(import_uniter)
app.command("fluency")(fluency)
for _command in (
    *(capmeter, capmeter_large, lceval, leic, umic, parser, text_encoder, scene_graph_parser),
    *(writer, regressor, captioner),
    *(scene_encoder, attribute_reader, scene_clip),
):
    app.command(_command.__name__.replace("_", "-"))(_with_curves(_command))
