"""`capmeter train`: trains the models that capmeter ships, a command for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_type_hints

from capmeter.cli.command import Application
from capmeter.cli.main import echo
from capmeter.cli.options import FormatOptions
from capmeter.cli.output import show
from capmeter.core.options import argument, option
from capmeter.core.progress import show_progress
from capmeter.encoders.handle import require_neural
from capmeter_research.common.options import TrainingReport, output_option
from capmeter_research.networks.caption_writer.train import train as train_writer
from capmeter_research.networks.fluency.train import train as train_fluency
from capmeter_research.networks.own_metric.distillation import train as train_distilled
from capmeter_research.networks.own_metric.larger import train as train_larger
from capmeter_research.networks.own_metric.train import train as train_capmeter
from capmeter_research.networks.parser.train import train as train_parser
from capmeter_research.networks.scene_graph_parser.train import train as train_scene_graph_parser
from capmeter_research.networks.text_encoder.train import train as train_text_encoder
from capmeter_research.papers.infometic.training.train import train as train_regressor
from capmeter_research.papers.lceval.training.train import train as train_lceval
from capmeter_research.papers.leic.training.train import train as train_leic
from capmeter_research.papers.subicap.train import train as train_captioner
from capmeter_research.papers.umic.training.train import train as train_umic
from capmeter_research.synthetic_scenes.train import train_attribute_reader, train_scene_encoder

app = Application(no_args_is_help=True)


@app.callback()
def train() -> None:
    """Train the models that capmeter ships."""


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """The published files, and the folder of the checkpoint."""

    state_dict: Path = argument(help="Published weights: uniter-base.pt, umic.pt …", metavar="FILE")
    vocabulary: Path = option(..., "vocab.txt of bert-base-cased.")
    output: Path = output_option("Write the checkpoint to this folder.")
    config: Path | None = option(None, "The model's JSON file, if its heads are not 64 wide.")


@app.command("import-uniter")
def import_uniter(options: ImportOptions) -> None:
    """Convert the published weights of UNITER or UMIC; nothing in the file is run.

    **Example**

    `capmeter train import-uniter umic.pt --vocabulary vocab.txt --output umic/`
    """
    require_neural()
    from capmeter_research.papers.umic.training.weights import convert_uniter

    checkpoint = convert_uniter(options.state_dict, options.vocabulary, options.output, options.config)
    head_names = [name.removesuffix(".weight") for name in checkpoint.weights if name.endswith("_output.weight")]
    shape = checkpoint.parameters["shape"]
    echo(f"{options.output}: {checkpoint.label}, {shape}, heads {', '.join(head_names) or 'none'}")


def _make_command(train: Callable[[Any], TrainingReport]) -> Callable[[Any, FormatOptions], None]:
    """The command of a training, with its documentation; also draws curves beside each log, if matplotlib is there."""

    def command(options: Any, table: FormatOptions) -> None:
        with show_progress():
            report = train(options)
        show(report.table, report.data, table.format)
        for message in report.messages:
            echo(message)
        if options.output is not None and find_spec("matplotlib") is not None:
            from capmeter_research.common.training_curves import save_curves

            for picture in save_curves(options.output):
                echo(f"curves: {picture}")

    command.__doc__ = train.__doc__
    command.__annotations__ = {"options": get_type_hints(train)["options"], "table": FormatOptions, "return": None}
    return command


_TRAININGS: dict[str, Callable[[Any], TrainingReport]] = {
    "fluency": train_fluency,
    "capmeter": train_capmeter,
    "capmeter-large": train_larger,
    "capmeter-distilled": train_distilled,
    "lceval": train_lceval,
    "leic": train_leic,
    "umic": train_umic,
    "parser": train_parser,
    "text-encoder": train_text_encoder,
    "scene-graph-parser": train_scene_graph_parser,
    "writer": train_writer,
    "regressor": train_regressor,
    "captioner": train_captioner,
    "scene-encoder": train_scene_encoder,
    "attribute-reader": train_attribute_reader,
}
for _name, _train in _TRAININGS.items():
    app.command(_name)(_make_command(_train))
