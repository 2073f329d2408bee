"""`capmeter score`: captions in, scores out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from capmeter.captions.caption_set import CaptionSet
from capmeter.captions.containers import ROWS
from capmeter.captions.load_options import LoadOptions
from capmeter.captions.parts import Part, PartCaptions, join_types
from capmeter.captions.sources import CaptionSource
from capmeter.cli.command import Application
from capmeter.cli.inputs import for_metrics, input_files, name_and_path, name_system
from capmeter.cli.main import CHECK_FAILED, echo
from capmeter.cli.options import (
    DeviceOptions,
    TableOptions,
    instances_option,
    metrics_option,
    output_option,
    quiet_option,
    resamples_option,
    seed_option,
    systems_argument,
    with_instances,
)
from capmeter.cli.output import command_line, refuse_shared_files, show, show_notes, show_scores
from capmeter.core.errors import InputError
from capmeter.core.messages import escape_controls, format_count
from capmeter.core.options import default_of, option
from capmeter.core.output_files import table_kind
from capmeter.core.progress import show_progress
from capmeter.evaluation.base import Metric
from capmeter.evaluation.pools import MAX_WORKERS, WorkerPool, choose_worker_count
from capmeter.evaluation.registry import parse, parse_list
from capmeter.evaluation.results import Results, save_all
from capmeter.evaluation.runner import evaluate
from capmeter.meta.system_ranking import rank_systems
from capmeter.report.score_table import SCORED_SHARE, format_share
from capmeter.report.tables import Table, default_digits, name_metrics
from capmeter.stats.pairs import sign_with_tolerance

if TYPE_CHECKING:
    from capmeter.evaluation.part_scores import PartScores


app = Application()
_FAILING = {"--minimum": -1, "--maximum": 1}  # the sign of a score minus its limit
# options without effect where parts of captions get files of scores
_NOT_OF_PARTS = ("output", "per_caption", "texts", "minimum", "maximum", "dry_run")
_LARGE = 1 << 28  # bytes of a file from which --parts is advised; a quarter of it for a compressed one


def _read_workers(text: str) -> tuple[bool, int]:
    """Whether workers are on Ray, and their number (0: as many as it has): a number of processes, `ray`, or `ray:N`."""
    name, colon, number = text.partition(":")
    count = number if name == "ray" else text
    if not ((name == "ray" and not colon) or (count.isdecimal() and 1 <= int(count) <= MAX_WORKERS)):
        raise InputError(f"expected a number from 1 to {MAX_WORKERS}, ray, or ray:N, but got {text!r}")
    return name == "ray", int(count or 0)


@dataclass(frozen=True, kw_only=True)
class ScoreOptions:
    """What is scored, and what becomes of the scores."""

    candidates: list[str] = systems_argument()
    metrics: str = metrics_option()
    instances: Path | None = instances_option()
    table: TableOptions = TableOptions()
    quiet: bool = quiet_option()
    output: Path | None = output_option()
    per_caption: Path | None = option(
        None, "Write one row per caption into this file: .parquet, .csv, .tsv or .jsonl (or with .gz)."
    )
    texts: bool = option(
        False, "With --per-caption: also write the caption and its references into each row.", group="files of scores"
    )
    keep: list[str] = option(
        [],
        "With --per-caption or --parts: carry these columns of the captions' file through to the rows of scores, of "
        "which each of its rows has one; `row` is the row's number. Repeatable.",
        group="files of scores",
        metavar="COLUMN[,…]",
    )
    intervals: bool = option(True, "Show each score's 95% interval (bootstrap by image).", "--intervals/--no-intervals")
    resamples: int = resamples_option()
    seed: int = seed_option()
    minimum: list[str] = option(
        [], "Exit with code 4 if a system's score is below this (`cider-d=1.2`); repeatable.", metavar="METRIC=SCORE"
    )
    maximum: list[str] = option(
        [],
        "Exit with code 4 if a system's score is above this, for metrics of which lower is better (`chair=0.2`); "
        "repeatable.",
        metavar="METRIC=SCORE",
    )
    least_answered: float = option(
        0.9,
        "Exit with code 4 if a judge gives a score to a smaller share of the captions than this.",
        minimum=0,
        maximum=1,
    )
    dry_run: bool = option(
        False, "Ask no judge: print the first questions to each, about how many there are, and what they cost."
    )
    parts: Path | None = option(
        None,
        "Score the captions part by part, each into a Parquet file in this folder; a run that was ended goes on with "
        "the missing parts. FILE may be a pattern in quotes.",
        group="many captions",
        metavar="FOLDER",
    )
    rows: int = option(ROWS, "With --parts: the number of captions of a part.", group="many captions", minimum=1)
    workers: str | None = option(
        None,
        "What shares the work: a number of processes, `ray`, or `ray:N` (default: chosen by input size).",
        group="many captions",
        check=_read_workers,
        metavar="N|ray[:N]",
    )
    gpus: float = option(
        0.0, "With --workers ray: the share of a GPU for each worker.", minimum=0, group="many captions"
    )
    load: LoadOptions = LoadOptions()
    compute: DeviceOptions = DeviceOptions()


@app.command()
def score(options: ScoreOptions) -> None:
    """Score captions with metrics, each system a row.

    **Examples**

    `capmeter score results.json --references captions_val2014.json`

    `capmeter score ours=a.json theirs=b.json -r refs.json -m bleu-4,cider-d,rouge-l --format latex --scale 100`

    `capmeter score results.json -r refs.json -m bleu-4,cider-d --minimum cider-d=1.2 --minimum bleu-4=0.35`

    `capmeter score rows.jsonl -m "cider-d(idf=captions_train2014.json)" --output scores.json --per-caption scores.csv`

    `capmeter score 'captions/*.parquet' -m bleu-4,cider-d --parts scores/ --workers ray`
    """
    metrics = with_instances(parse_list(options.metrics), options.instances)
    if options.parts is not None:
        _score_parts(options, metrics)
        return
    limits = {
        flag: dict(_parse_limit(limit_text, metrics, flag) for limit_text in limit_texts)
        for flag, limit_texts in (("--minimum", options.minimum), ("--maximum", options.maximum))
    }
    if options.dry_run:
        _show_questions(options, metrics)
        return
    _check_output_files(options)
    kept_columns = _columns_to_keep(options, metrics)
    settings, workers = options.compute.settings(), _open_workers(options)
    has_all_rows = options.per_caption is not None and bool(kept_columns or options.load.on_missing == "skip")
    with show_progress():
        captions, sources = _read_systems(options, metrics, tuple(kept_columns) if has_all_rows else None)
        files = dict.fromkeys(file for file, _ in sources.values())
        types = join_types([file.column_types() for file in files], kept_columns) if has_all_rows else {}
        systems = {
            name: evaluate(each, metrics, workers=workers or choose_worker_count(len(each), metrics), settings=settings)
            for name, each in captions.items()
        }
        rankings = rank_systems(systems, resamples=options.resamples, seed=options.seed, intervals=options.intervals)
    for results in systems.values():
        results.command = command_line()
    if options.output is not None:
        save_all(systems, options.output)
    if options.per_caption is not None:
        from capmeter.report.per_caption import write_per_caption

        write_per_caption(systems, options.per_caption, texts=options.texts, sources=sources, types=types)
    show_scores(systems, rankings, **vars(options.table))
    if not options.quiet:
        show_notes(systems)
    failed_checks = [
        f"{name}: {metric} is {results[metric].score:.6g}, {'below' if flag == '--minimum' else 'above'} {limit:g}"
        for flag, by_metric in limits.items()
        for metric, limit in by_metric.items()
        for name, results in systems.items()
        if sign_with_tolerance(results[metric].score, limit) == _FAILING[flag]  # rounding differences count as ties
    ]
    failed_checks += _list_unanswered(systems, options.least_answered)
    if failed_checks:
        echo(f"failed: {'; '.join(failed_checks)}")
        raise typer.Exit(CHECK_FAILED)


def _score_parts(options: ScoreOptions, metrics: list[Metric]) -> None:
    """Scores captions part by part; an option that has no effect on parts is refused."""
    from capmeter.evaluation.part_scores import score_parts  # which few runs need

    default_options = {each.name: default_of(each) for each in fields(ScoreOptions)}
    for refused in _NOT_OF_PARTS:
        if getattr(options, refused) != default_options[refused]:
            raise typer.BadParameter("cannot be combined with --parts", param_hint=f"--{refused.replace('_', '-')}")
    if options.table.systems_as_rows:
        raise typer.BadParameter("cannot be combined with --parts", param_hint="--systems-as-rows")
    if len(options.candidates) > 1:
        raise typer.BadParameter(
            "with --parts name one file, or a pattern in quotes ('captions/*.parquet')", param_hint="FILE..."
        )
    folder = options.parts
    assert folder is not None
    if folder.exists() and not folder.is_dir():
        raise typer.BadParameter(f"{folder} is a file, expected a folder", param_hint="--parts")
    name, source = name_and_path(options.candidates[0])
    with show_progress():
        scores = score_parts(
            source,
            metrics,
            folder,
            options=options.load,
            rows=options.rows,
            keep=_columns_to_keep(options, metrics),
            workers=_open_workers(options) or 1,
            intervals=options.intervals,
            resamples=options.resamples,
            seed=options.seed,
            settings=options.compute.settings(),
        )
    label = name or (Path(source).parent.name if has_magic(source) else CaptionSource.resolve(source).label)
    _show_part_scores(scores, label, folder, options.intervals, options.table)


def _open_workers(options: ScoreOptions) -> int | WorkerPool | None:
    """The workers that are named; None: none are."""
    if options.workers is None and not options.gpus:
        return None
    is_ray, number = _read_workers(options.workers or "1")
    if is_ray:
        from capmeter.integrations.ray import RayPool

        return RayPool(number, options.gpus)
    if options.gpus:
        raise typer.BadParameter("needs --workers ray", param_hint="--gpus")
    return number


def _show_part_scores(scores: PartScores, label: str, folder: Path, intervals: bool, table: TableOptions) -> None:
    """Shows the scores of all captions, and says what was noted.

    Args:
        scores: those of each system.
        label: the system of captions that name none.
        folder: where the scores of single captions are.
        intervals: whether they were asked for.
        table: how it is printed.
    """
    from capmeter.evaluation.part_scores import MAX_IMAGES, SUMMARY

    data = {} if table.format == "csv" else scores.to_dict()
    show(_part_table(scores, label, table.digits, table.scale), data, table.format)
    if scores.resumed:
        echo(f"note: {scores.resumed} of {scores.parts} parts were finished before")
    for name, of_system in scores.systems.items():
        if intervals and not of_system.intervals:
            echo(f"note: no intervals: there are none from {MAX_IMAGES:,} images on")
        of = f" {name}:" if len(scores.systems) > 1 else ""
        for reason, (count, ids) in of_system.notes.items():
            listed = f"{', '.join(ids)}{', …' if count > len(ids) else ''}"
            echo(f"note:{of} {reason.replace('_', ' ')}: {count:,} ({listed})")
        for signature in of_system.signatures.values():
            echo(f"signature: {signature}")
    echo(f"scores of every caption and {SUMMARY} in {folder}")


def _part_table(scores: PartScores, label: str, digits: int | None, scale: float) -> Table:
    decimals = default_digits(scale) if digits is None else digits
    rows = []
    parts = [parts for of_system in scores.systems.values() for parts in of_system.parts.values()]
    thresholds = list(dict.fromkeys(name for names in parts for name in names if name.startswith("iou ")))
    short_names = name_metrics(metric for of_system in scores.systems.values() for metric in of_system.scores)
    for name, of_system in scores.systems.items():
        for metric_name, score in of_system.scores.items():
            bounds = [f"{scale * bound:.{decimals}f}" for bound in of_system.intervals.get(metric_name, ())]
            interval = f"[{', '.join(bounds)}]" if bounds else ""
            rows.append([name or label, short_names[metric_name], f"{scale * score:.{decimals}f}", interval])
            values = of_system.parts.get(metric_name, {})
            rows[-1] += [f"{scale * values[name]:.{decimals}f}" if name in values else "-" for name in thresholds]
    captions = sum(of_system.captions for of_system in scores.systems.values())
    title = f"{format_count(captions, 'caption')} in {format_count(scores.parts, 'part')}"
    columns = ["system", "metric", "score", "95% interval", *thresholds]
    return Table(title, columns, rows, [False, False, *[True] * (len(columns) - 2)])


def _list_unanswered(systems: Mapping[str, Results], least_answered: float) -> list[str]:
    """The judges that gave a score to too few captions."""
    failed_checks = []
    for name, results in systems.items():
        for metric in results:
            scored_share = results[metric].parts.get(SCORED_SHARE, 1.0)
            if scored_share == 1:
                continue
            from capmeter.metrics.judges.judge import answered_share  # which take a fifth of a small run to load
            from capmeter.metrics.judges.reading import NO_ANSWER

            if answered_share(results[metric]) < least_answered:
                remedy = "; a further run asks only what has no answer" if NO_ANSWER in results[metric].notes else ""
                failed_checks.append(
                    f"{name}: {metric} has a score for {format_share(scored_share, len(results.ids.names))} captions, "
                    f"fewer than --least-answered {least_answered:g}{remedy}"
                )
    return failed_checks


def _show_questions(options: ScoreOptions, metrics: list[Metric]) -> None:
    """Prints what judges would be asked first, and the estimate; nothing is asked."""
    from capmeter.metrics.judges.judge import Judge

    judges = [metric for metric in metrics if isinstance(metric, Judge)]
    if not judges:
        raise typer.BadParameter("needs a judge among the --metrics", param_hint="--dry-run")
    captions, _ = _read_systems(options, metrics, None)
    for name, of_system in captions.items():
        for judge in judges:
            questions, estimate = judge.preview(of_system, options.compute.settings())
            for k, question in enumerate(questions, 1):
                typer.echo(f"--- question {k} of {judge}")
                for line in question.splitlines():
                    typer.echo(escape_controls(line))
            typer.echo(f"--- {name}: {judge}: {estimate}; nothing was asked")


def _columns_to_keep(options: ScoreOptions, metrics: list[Metric]) -> list[str]:
    """The columns that --keep names; those that the rows of scores have anyway are refused."""
    kept_columns = list(dict.fromkeys(name for text in options.keep for name in text.split(",") if name))
    if kept_columns and options.per_caption is None and options.parts is None:
        raise typer.BadParameter("needs --per-caption FILE or --parts FOLDER, whose rows get it", param_hint="--keep")
    own_columns = [
        "id",
        "image_id",
        "system",
        *(["candidate", "references"] if options.texts else []),
        *map(str, metrics),
    ]
    if present_columns := [
        name for name in kept_columns if name in own_columns or name.startswith(tuple(f"{each}/" for each in metrics))
    ]:
        raise typer.BadParameter(
            f"the rows have {', '.join(present_columns)} without it; leave it out", param_hint="--keep"
        )
    return kept_columns


def _read_systems(
    options: ScoreOptions, metrics: list[Metric], keep: tuple[str, ...] | None
) -> tuple[dict[str, CaptionSet], dict[str, tuple[PartCaptions, str]]]:
    """The captions of each system; with `keep` also all rows of its file, and its name there."""
    systems: dict[str, CaptionSet] = {}
    sources: dict[str, tuple[PartCaptions, str]] = {}
    for named_file in options.candidates:
        given_name, path = name_and_path(named_file)
        source = CaptionSource.resolve(path)
        if source.size > (_LARGE // 4 if source.compression else _LARGE):
            echo(f"note: {source.name} is large; --parts FOLDER holds one part at a time, and goes on after a crash")
        file = Part(source, for_metrics(options.load, metrics), keep=keep).read()
        for name, (_, captions) in file.systems.items():
            label = name_system(given_name, name or source.label, len(file.systems) == 1, systems)
            systems[label] = captions
            if keep is not None:
                sources[label] = file, name
    return systems, sources


def _check_output_files(options: ScoreOptions) -> None:
    """Raises before the work if a file cannot be written."""
    output, per_caption = options.output, options.per_caption
    input_paths = input_files(options.candidates, options.load)
    refuse_shared_files(input_paths, output=output, per_caption=per_caption)
    if options.texts and per_caption is None:
        raise typer.BadParameter("needs --per-caption FILE, whose rows get the texts", param_hint="--texts")
    if per_caption is not None:
        table_kind(per_caption)


def _parse_limit(text: str, metrics: list[Metric], flag: str) -> tuple[Metric, float]:
    """The metric and score of one `--minimum` or `--maximum`."""
    metric_name, _, limit_text = text.rpartition("=")
    score_end, example = ("lowest", "cider-d=1.2") if flag == "--minimum" else ("highest", "chair=0.2")
    try:
        metric, score_limit = parse(metric_name), float(limit_text)
    except (InputError, ValueError) as problem:
        raise typer.BadParameter(
            f"{text!r} is not a metric and its {score_end} score, such as {example} ({problem})", param_hint=flag
        ) from problem
    if metric not in metrics:
        metric_variants = [each for each in metrics if each.name == str(metric)]  # --instances gives chair a parameter
        if len(metric_variants) != 1:
            raise typer.BadParameter(f"{metric} is not among the --metrics", param_hint=flag)
        metric = metric_variants[0]
    if not math.isfinite(score_limit):
        raise typer.BadParameter(f"{limit_text} is not a score", param_hint=flag)
    if metric.lower_is_better != (flag == "--maximum"):
        better, other_flag = ("lower", "--maximum") if metric.lower_is_better else ("higher", "--minimum")
        raise typer.BadParameter(f"{better} is better for {metric}; use {other_flag}", param_hint=flag)
    return metric, score_limit
