"""`capmeter score`: captions in, scores out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from capmeter.captions.columns import chosen_columns
from capmeter.captions.files import check_targets
from capmeter.captions.io import load, load_systems
from capmeter.captions.model import CaptionSet
from capmeter.captions.streaming import CaptionStream, is_large, stream, stream_systems
from capmeter.cli.inputs import label_of, name_and_path
from capmeter.cli.main import CHECK_FAILED, say
from capmeter.cli.options import (
    Columns,
    Device,
    Digits,
    Engine,
    Format,
    ImagesRoot,
    InputFormat,
    Metrics,
    OnMissing,
    OptionalFiles,
    Output,
    Precision,
    References,
    ReferencesFormat,
    Regions,
    Resamples,
    Scale,
    Seed,
    Split,
    System,
    settings_of,
)
from capmeter.cli.output import (
    command_line,
    show_scores,
    tell_notes,
)
from capmeter.errors import InputError
from capmeter.meta.standing import standings
from capmeter.metrics.base import Metric
from capmeter.metrics.evaluation import evaluate
from capmeter.metrics.needs import needed
from capmeter.metrics.registry import parse, parse_list
from capmeter.metrics.scores import Results, save_all
from capmeter.metrics.workers import worthwhile
from capmeter.progress import shown
from capmeter.stats.ties import preferred

if TYPE_CHECKING:
    from capmeter.meta.by_reference import ByReference

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")


@app.command()
def score(
    context: typer.Context,
    candidates: OptionalFiles = [],
    references: References = None,
    metrics: Metrics = "bleu-4,rouge-l,cider-d",
    format: Format = "table",
    output: Output = None,
    per_caption: Path | None = typer.Option(
        None, "--per-caption", help="Write one row per caption here: .parquet, .csv, .tsv or .jsonl (or with .gz)."
    ),
    texts: bool = typer.Option(
        False, "--texts", help="With --per-caption: write the caption and its references into each row too."
    ),
    by_reference: Path | None = typer.Option(
        None,
        "--by-reference",
        help="Write every caption's score against each reference alone here, with their spread: .csv, .tsv or .jsonl.",
    ),
    intervals: bool = typer.Option(True, help="Give each score's 95% interval (bootstrap by image)."),
    resamples: Resamples = 1000,
    seed: Seed = 0,
    digits: Digits = None,
    scale: Scale = 1,
    minimum: list[str] = typer.Option(
        [],
        "--minimum",
        metavar="METRIC=SCORE",
        help="Leave with exit code 4 if a system's score is below this (`cider-d=1.2`); repeatable.",
    ),
    system: System = None,
    split: Split = None,
    streaming: bool | None = typer.Option(
        None, "--stream/--no-stream", help="Read the captions part by part. Large files are, unless you say not to."
    ),
    workers: int | None = typer.Option(
        None,
        help="Processes that share the work (default: several where they pay; with Ray one per core).",
        min=1,
        max=256,
    ),
    engine: Engine = "local",
    shards: str | None = typer.Option(
        None,
        "--shards",
        metavar="PATTERN",
        help="With --engine ray: the files of captions (in quotes); each gets its scores in the folder --output.",
    ),
    gpus: float = typer.Option(0.0, "--gpus", help="With --engine ray: the share of a GPU for each worker.", min=0),
    on_missing: OnMissing = "error",
    images_root: ImagesRoot = None,
    device: Device = None,
    precision: Precision = None,
    column: Columns = [],
    input_format: InputFormat = None,
    references_format: ReferencesFormat = None,
    regions: Regions = "",
) -> None:
    """Score captions with metrics, each system a row.

    **Examples**

    `capmeter score results.json --references captions_val2014.json`

    `capmeter score ours=a.json theirs=b.json -r refs.json -m bleu-4,cider-d,rouge-l --format latex --scale 100`

    `capmeter score results.json -r refs.json -m bleu-4,cider-d --minimum cider-d=1.2 --minimum bleu-4=0.35`

    `capmeter score rows.jsonl -m "cider-d(idf=captions_train2014.json)" --output scores.json --per-caption scores.csv`

    `capmeter score --engine ray --shards 'captions/*.parquet' -m bleu-4,cider-d --output scores/`
    """
    if engine == "ray" or shards is not None:
        from capmeter.cli.shards import score_on_ray

        score_on_ray(
            context,
            shards,
            parse_list(metrics),
            output,
            references=references,
            workers=workers,
            gpus=gpus,
            intervals=intervals,
            resamples=resamples,
            seed=seed,
            settings=settings_of(device, precision),
            format=format,
            digits=digits,
            scale=scale,
        )
        return
    if not candidates:
        raise typer.BadParameter("Missing argument: a file of captions", param_hint="FILE...")
    chosen = parse_list(metrics)
    minima = dict(_minimum(each, chosen) for each in minimum)
    check_targets(output, per_caption, by_reference)
    if texts and per_caption is None:
        raise typer.BadParameter("needs --per-caption FILE, whose rows get the texts", param_hint="--texts")
    if per_caption is not None:
        from capmeter.report.per_caption import checked_kind, write_per_caption

        checked_kind(per_caption)
        if per_caption == output:
            raise typer.BadParameter("--output and --per-caption name the same file", param_hint="--per-caption")
    if by_reference is not None:
        from capmeter.meta.by_reference import by_reference as scores_by_reference
        from capmeter.report.by_reference import write_by_reference
        from capmeter.report.row_files import checked_kind as checked_reference_kind

        checked_reference_kind(by_reference)
        if by_reference in (output, per_caption):
            raise typer.BadParameter(
                "--by-reference names a file that another option writes", param_hint="--by-reference"
            )
    systems: dict[str, Results] = {}
    alone: dict[str, list[ByReference]] = {}
    settings = settings_of(device, precision)
    with shown():
        for given in candidates:
            name, path = name_and_path(given)
            how = {
                "format": input_format,
                "references_format": references_format,
                "on_missing": on_missing if needed("references", chosen) else "keep",
                "split": split,
                "columns": chosen_columns(column),
                "regions": regions,
                "images_root": images_root or "",
            }
            sources: Mapping[str, CaptionSet | CaptionStream]
            parts = is_large(path) and not texts if streaming is None else streaming
            if system is not None:
                read = stream if parts else load
                sources = {system: read(path, references, system=system, **how)}  # type: ignore[arg-type]
            else:
                sources = (stream_systems if parts else load_systems)(path, references, **how)  # type: ignore[arg-type]
            for found, captions in sources.items():
                label = label_of(name, found, len(sources) == 1, systems)
                systems[label] = evaluate(
                    captions, chosen, workers=workers or worthwhile(captions, chosen), settings=settings
                )
                if by_reference is not None:
                    if not isinstance(captions, CaptionSet):
                        raise typer.BadParameter(
                            "needs all captions at once: add --no-stream", param_hint="--by-reference"
                        )
                    alone[label] = scores_by_reference(captions, chosen, settings=settings)
        standing = standings(systems, resamples=resamples, seed=seed, intervals=intervals)
    for results in systems.values():
        results.command = command_line()
    if output is not None:
        save_all(systems, output)
    if per_caption is not None:
        write_per_caption(systems, per_caption, texts=texts)
    if by_reference is not None:
        write_by_reference(alone, by_reference)
    show_scores(systems, standing, format, digits=digits, scale=scale)
    tell_notes(systems)
    low = [
        f"{name}: {metric} is {results[metric].score:.6g}, below {least:g}"
        for metric, least in minima.items()
        for name, results in systems.items()
        if preferred(results[metric].score, least) < 0  # rounding differences count as ties
    ]
    if low:
        say(f"failed: {'; '.join(low)}")
        raise typer.Exit(CHECK_FAILED)


def _minimum(given: str, chosen: list[Metric]) -> tuple[Metric, float]:
    """The metric and score of one `--minimum`."""
    name, _, number = given.rpartition("=")
    try:
        metric, least = parse(name), float(number)
    except (InputError, ValueError) as problem:
        raise typer.BadParameter(
            f"{given!r} is not a metric and its lowest score, such as cider-d=1.2 ({problem})", param_hint="--minimum"
        ) from problem
    if metric not in chosen:
        raise typer.BadParameter(f"{metric} is not among the --metrics", param_hint="--minimum")
    if not math.isfinite(least):
        raise typer.BadParameter(f"{number} is not a score", param_hint="--minimum")
    return metric, least
