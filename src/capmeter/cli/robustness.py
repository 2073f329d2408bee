"""`capmeter robustness`: controlled degradation of human captions, and which metrics notice."""

from __future__ import annotations

import typer

from capmeter.captions.columns import chosen_columns
from capmeter.captions.files import check_targets
from capmeter.captions.io import load, load_reference_table
from capmeter.captions.model import CaptionSet
from capmeter.cli.main import say
from capmeter.cli.options import (
    Columns,
    Device,
    Format,
    ImagesRoot,
    Metrics,
    Output,
    Plots,
    Precision,
    Regions,
    Resamples,
    Seed,
    Split,
    settings_of,
)
from capmeter.cli.output import show
from capmeter.meta.robustness import DEGRADATIONS, STRENGTHS
from capmeter.meta.robustness import robustness as study_of
from capmeter.metrics.registry import parse_list
from capmeter.progress import shown
from capmeter.report.figures import save_figures
from capmeter.report.robustness import curve_points, examples_table, robustness_figure, robustness_table
from capmeter.transforms.registry import TRANSFORMS

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
_WAYS = "; ".join(f"{name}: {TRANSFORMS.kind(name).SUMMARY}" for name in TRANSFORMS.ready())


@app.command()
def robustness(
    references: str = typer.Argument(
        ...,
        help="References in any format, at least two per image: one is degraded and scored against the others.",
        metavar="FILE",
    ),
    metrics: Metrics = "bleu-4,rouge-l,cider-d",
    degradations: str = typer.Option(
        ",".join(DEGRADATIONS),
        "--degradations",
        help=f"Names, separated by commas, or `all`. {_WAYS}. `capmeter list NAME` shows the parameters of one.",
    ),
    candidates: str | None = typer.Option(
        None, help="Degrade the captions of this file instead, and score them against all references."
    ),
    images: int | None = typer.Option(None, help="Sample this many images.", min=2),
    split: Split = None,
    column: Columns = [],
    strengths: str = typer.Option(",".join(f"{k:g}" for k in STRENGTHS), help="The strengths γ, from 0 to 1."),
    format: Format = "table",
    examples: bool = typer.Option(False, "--examples", help="Also show the degraded versions of one caption."),
    output: Output = None,
    plot: Plots = [],
    resamples: Resamples = 1000,
    images_root: ImagesRoot = None,
    regions: Regions = "",
    device: Device = None,
    precision: Precision = None,
    seed: Seed = 0,
) -> None:
    """Degrade human captions with increasing strength, and show which metrics notice.

    A table of the area under each curve (the lower, the more a metric notices), and the curves with `--plot`.

    **Examples**

    `capmeter robustness captions_val2014.json --images 1000 -m bleu-4,rouge-l,cider-d,meteor --plot curves.png`

    `capmeter robustness refs.jsonl --degradations all --format latex`

    `capmeter robustness refs.jsonl --degradations "other-caption(similarity=cider-d),permutation" -o study.json`
    """
    chosen = parse_list(metrics)
    try:
        points = [float(point) for point in strengths.split(",") if point.strip()]
    except ValueError:
        raise typer.BadParameter(
            f"{strengths!r}: expected numbers, such as 0,0.5,1", param_hint="--strengths"
        ) from None
    check_targets(output, *plot)
    settings = settings_of(device, precision)
    with shown():
        columns = chosen_columns(column)
        captions: CaptionSet | dict[str, tuple[str, ...]]
        pictures: dict[str, str] | None = None
        if candidates is None:
            table = load_reference_table(references, split=split, columns=columns)
            captions, pictures = table.references, table.images
        else:
            captions = load(candidates, references, images_root=images_root or "", columns=columns)
        ways = TRANSFORMS.ready() if degradations.strip() == "all" else degradations
        study = study_of(
            captions,
            chosen,
            ways,
            strengths=points,
            images=images,
            seed=seed,
            resamples=resamples,
            pictures=pictures,
            images_root=images_root,
            regions=regions,
            settings=settings,
        )
    if output is not None:
        study.save(output)
    if plot:
        save_figures(robustness_figure(study), plot)
    show(curve_points(study) if format == "csv" else robustness_table(study), study.to_dict(), format)
    if examples and format not in ("json", "csv"):
        show(examples_table(study), {}, format)
    for way, shares in study.unchanged.items():
        if shares[1:].max() > 0:
            say(f"note: {way} left up to {100 * shares[1:].max():.1f}% of the captions unchanged")
    for reason, ids in study.captions.notes.items():
        say(f"note: {reason.replace('_', ' ')}: {', '.join(ids[:5])}{f' and {len(ids) - 5:,} more' if ids[5:] else ''}")
    for signature in dict.fromkeys(curve.signature for curve in study):
        say(f"signature: {signature}")
