"""`capmeter robustness`: controlled degradation of human captions, and which metrics notice."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import typer

from capmeter.captions.caption_set import CaptionSet
from capmeter.captions.load import load, load_reference_table
from capmeter.captions.load_options import LoadOptions
from capmeter.cli.command import Application
from capmeter.cli.main import echo
from capmeter.cli.options import (
    DeviceOptions,
    format_option,
    instances_option,
    metrics_option,
    output_option,
    plot_option,
    resamples_option,
    scale_option,
    seed_option,
    with_instances,
)
from capmeter.cli.output import refuse_shared_files, show
from capmeter.core.errors import InputError
from capmeter.core.options import argument, option, option_group
from capmeter.core.output_files import write_atomic
from capmeter.core.progress import show_progress
from capmeter.evaluation.registry import parse_list
from capmeter.meta.robustness import DEGRADATIONS, STRENGTHS, Robustness
from capmeter.meta.robustness import robustness as measure_robustness
from capmeter.report.figures import save_figures
from capmeter.report.robustness import curve_points, examples_table, robustness_figure, robustness_table
from capmeter.report.score_table import describe_note
from capmeter.transforms.degradations import TRANSFORMS

app = Application()
_SUMMARIES = "; ".join(f"{name}: {TRANSFORMS.class_of(name).SUMMARY}" for name in TRANSFORMS.available())


def _explain_references(path: str) -> None:
    raise InputError(
        f"the references are the file itself: capmeter robustness {path}; they are degraded and scored against each "
        "other, or the captions of --candidates FILE against all of them"
    )


@dataclass(frozen=True, kw_only=True)
class _RobustnessOptions:
    """The captions, how they are degraded, and what is printed."""

    human_captions: str = argument(
        help="References in any format, at least two per image: one is degraded and scored against the others.",
        metavar="FILE",
    )
    references: str | None = option(
        None, "Not needed: FILE has the references.", "--references", "-r", check=_explain_references
    )
    metrics: str = metrics_option()
    instances: Path | None = instances_option()
    degradations: str = option(
        ",".join(DEGRADATIONS),
        f"Names, separated by commas, or `all`. {_SUMMARIES}. `capmeter list NAME` shows the parameters of one.",
        separator=",",
    )
    candidates: str | None = option(
        None, "Degrade the captions of this file instead, and score them against all references."
    )
    images: int | None = option(None, "Sample this many images.", minimum=2)
    load: LoadOptions = option_group(LoadOptions, "format", "split", "columns", "unicode", "images_root", "regions")
    strengths: str = option(",".join(f"{k:g}" for k in STRENGTHS), "The strengths γ, from 0 to 1.", separator=",")
    format: str = format_option()
    scale: float = scale_option()
    examples: bool = option(False, "Also show the degraded versions of one caption.")
    output: Path | None = output_option()
    plot: list[Path] = plot_option()
    resamples: int = resamples_option()
    compute: DeviceOptions = DeviceOptions()
    seed: int = seed_option()


@app.command()
def robustness(options: _RobustnessOptions) -> None:
    """Degrade human captions with increasing strength, and show which metrics notice.

    A table of the area under each curve (the lower, the more a metric notices), and the curves with `--plot`.

    **Examples**

    `capmeter robustness captions_val2014.json --images 1000 -m bleu-4,rouge-l,cider-d,meteor --plot curves.png`

    `capmeter robustness refs.jsonl --degradations all --format latex`

    `capmeter robustness refs.jsonl --degradations "other-caption(nearest=3),permutation" -o study.json`
    """
    strengths = _parse_strengths(options.strengths)
    refuse_shared_files([options.human_captions, options.candidates], output=options.output, plot=options.plot)
    with show_progress():
        study = _measure(options, strengths)
    if options.output is not None:
        write_atomic(options.output, json.dumps(study.to_dict(), indent=1) + "\n")
    if options.plot:
        save_figures(robustness_figure(study), options.plot)
    format = options.format
    show(curve_points(study) if format == "csv" else robustness_table(study, options.scale), study.to_dict(), format)
    if options.examples and format not in ("json", "csv"):
        show(examples_table(study), {}, format)
    for degradation, shares in study.unchanged.items():
        if shares[1:].max() > 0:
            echo(f"note: {degradation} left up to {100 * shares[1:].max():.1f}% of the captions unchanged")
    for reason, ids in study.captions.notes.items():
        echo(f"note: {describe_note(reason, ids, study.captions.ids)}")
    for signature in dict.fromkeys(curve.signature for curve in study):
        echo(f"signature: {signature}")


def _measure(options: _RobustnessOptions, strengths: list[float]) -> Robustness:
    captions: CaptionSet | dict[str, tuple[str, ...]]
    image_files = None
    if options.candidates is None:
        reference_table = load_reference_table(options.human_captions, options=options.load)
        captions, image_files = reference_table.references, reference_table.images
    else:
        load_options = replace(options.load, format=None, references_format=options.load.format, split=None, regions="")
        captions = load(options.candidates, options.human_captions, options=load_options)
    all_degradations = options.degradations.strip() == "all"
    return measure_robustness(
        captions,
        with_instances(parse_list(options.metrics), options.instances),
        TRANSFORMS.available() if all_degradations else options.degradations,
        strengths=strengths,
        images=options.images,
        seed=options.seed,
        resamples=options.resamples,
        image_files=image_files,
        images_root=options.load.images_root,
        regions=options.load.regions,
        settings=options.compute.settings(),
    )


def _parse_strengths(text: str) -> list[float]:
    try:
        return [float(strength) for strength in text.split(",") if strength.strip()]
    except ValueError:
        raise typer.BadParameter(f"{text!r}: expected numbers, such as 0,0.5,1", param_hint="--strengths") from None
