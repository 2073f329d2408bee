"""Options that several commands share: one name, one meaning, one line of help.

Each is a function that gives a dataclass field (`seed: int = seed_option()`), or a dataclass of options that belong
together (`table: TableOptions = TableOptions()`). A value that an option does not allow is wrong usage (exit code 2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer

from capmeter.core.options import argument, option
from capmeter.core.settings import ENGINES, PRECISIONS, JudgeLimits, Settings
from capmeter.evaluation.base import Metric
from capmeter.evaluation.registry import BUNDLES, METRICS, parse_list
from capmeter.report.figures import image_kind
from capmeter.report.tables import FORMATS


def complete_metrics(incomplete: str) -> list[str]:
    """The names of metrics that may end this text, the last of several separated by commas."""
    earlier_names, comma, name_start = incomplete.rpartition(",")
    chosen_names = earlier_names.split(",")
    return [
        f"{earlier_names}{comma}{metric_name}"
        for metric_name in (*METRICS.names(), *BUNDLES)
        if metric_name.startswith(name_start) and metric_name not in chosen_names
    ]


def systems_argument(**details: Any) -> Any:
    """The files of captions to score or compare."""
    help = "Files of captions, each with one system or several. `NAME=FILE` names the system."
    return argument(help=help, metavar="FILE...", **details)


def metrics_option(
    default: str = "bleu-4,rouge-l,cider-d",
    help: str = "Names, separated by commas; `capmeter list` shows them; `coco`: those of MS COCO's table. Repeatable.",
    **details: Any,
) -> Any:
    """An option of metrics, as a comma-separated text.

    Args:
        default: names of metrics.
        help: of the option.
        details: further arguments of `option`.
    """
    details |= {"check": parse_list, "complete": complete_metrics, "separator": ","}
    return option(default, help, "--metrics", "-m", **details)


def stored_metrics_option(default: str) -> Any:
    """The metrics of a command that takes captions or stored results; "" where none are named (`choose_metrics`)."""
    return metrics_option("", default_text=f"those of stored results, else {default}")


def encoder_option(default: str | list[str] = "minilm") -> Any:
    """A text encoder, or several."""
    repeatable = "; repeatable" if isinstance(default, list) else ""
    help = f"An encoder: an alias, a Hugging Face hub id or a folder{repeatable}."
    return option(default, help, "--encoder", "-e")


def format_option() -> Any:
    """What is printed."""
    return option("table", "What to print.", "--format", "-f", choices=FORMATS)


def output_option() -> Any:
    """The JSON file of all results."""
    return option(None, "Write all results to this file (JSON).", "--output", "-o")


def plot_option() -> Any:
    """The files of figures."""
    help = "Draw a figure into this file: .png, .svg or .pdf; repeatable."
    return option([], help, "--plot", check=lambda paths: list(map(image_kind, paths)))


def control_option(what: str) -> Any:
    """`--control length`: the result also with the captions' length held constant."""
    return option(None, f"Also show the {what}.", "--control", choices=("length",))


def resamples_option() -> Any:
    """The number of bootstrap resamples."""
    return option(1000, "Number of bootstrap resamples.", minimum=10, maximum=1_000_000)


def instances_option() -> Any:
    """The objects of the images."""
    return option(
        None,
        "Which objects images show, for chair, hallucination and others: COCO's file of instances, or a JSON of "
        "objects by image.",
    )


def with_instances(metrics: Sequence[Metric], instances: Path | None) -> list[Metric]:
    """The metrics, those that compare with the objects of images with this file of them."""
    if instances is None:
        return list(metrics)
    objects = {"objects": str(instances)}
    metrics_with_objects = [replace(each, **objects) if hasattr(each, "objects") else each for each in metrics]
    if metrics_with_objects == list(metrics):
        raise typer.BadParameter("no metric compares with objects; add chair to --metrics", param_hint="--instances")
    return metrics_with_objects


def side_option() -> Any:
    """What a file holds."""
    help = "Read the file as candidates or as references (default: detected)."
    return option(None, help, choices=("candidates", "references"))


def seed_option() -> Any:
    """The seed of everything random in a command."""
    return option(0, "Seed of all random numbers in this command.", minimum=0)


def level_option() -> Any:
    """The confidence level."""
    return option(0.95, "Confidence level of intervals and ranks.", minimum=0.5, maximum=0.999)


@dataclass(frozen=True, kw_only=True)
class FormatOptions:
    """How results are printed."""

    format: str = format_option()


def scale_option(default: float = 1) -> Any:
    """By which printed scores are multiplied."""
    help = "Multiply the scores that are printed by this factor, such as 100 for papers. JSON and CSV are not scaled."
    return option(default, help, minimum=1e-6, maximum=1e6)


def quiet_option() -> Any:
    """Whether notes and signatures are left out."""
    return option(False, "Print no notes and signatures on standard error; files have them.", "--quiet", "-q")


@dataclass(frozen=True, kw_only=True)
class TableOptions(FormatOptions):
    """How tables of scores are printed."""

    digits: int | None = option(
        None, "Decimals of the scores in a table (default: 4, or 2 with --scale 100).", minimum=0, maximum=12
    )
    scale: float = scale_option()
    systems_as_rows: bool = option(False, "Give each system a row also where there are more metrics, or one system.")


@dataclass(frozen=True, kw_only=True)
class DeviceOptions:
    """Where and how neural networks run, and how judges are asked."""

    device: str | None = option(
        None,
        "Where neural networks run: cpu, cuda, cuda:1 or mps (default: a GPU where there is one).",
        group="networks",
    )
    precision: str | None = option(
        None, "Precision of neural networks (default: float32).", choices=PRECISIONS, group="networks"
    )
    engine: str | None = option(
        None,
        "What runs text encoders: torch, or on a CPU openvino, which is faster (default: torch).",
        choices=ENGINES,
        group="networks",
    )
    judging: JudgeLimits = JudgeLimits()

    def settings(self) -> Settings:
        """The run's settings; what is not given comes from the environment.

        Raises:
            InputError: the device is unknown.
        """
        given_settings: dict[str, Any] = {"device": self.device, "precision": self.precision, "engine": self.engine}
        setting_values = {setting_name: value for setting_name, value in given_settings.items() if value is not None}
        return Settings(**setting_values, judging=self.judging)
