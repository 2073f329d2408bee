"""`capmeter score --shards`: files of captions in, files of scores out, in this process or on Ray."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from capmeter.cli.main import echo
from capmeter.cli.output import show
from capmeter.core.messages import format_count
from capmeter.core.progress import show_progress
from capmeter.evaluation.base import Metric
from capmeter.integrations.shards import MAX_RESAMPLED, SUMMARY, ShardedCaptions, score_shards
from capmeter.report.tables import MetricName, Table


def score_files(
    engine: str,
    pattern: str | None,
    metrics: list[Metric],
    output: Path | None,
    *,
    format: str,
    digits: int | None,
    scale: float,
    intervals: bool,
    **options: Any,
) -> None:
    """Scores the shards that match a pattern, and shows the scores of all captions; `options`: of `score_shards`."""
    score: Callable[..., ShardedCaptions] = score_shards
    if engine == "ray":
        from capmeter.integrations.ray import score_shards as score
    elif options.pop("gpus"):
        raise typer.BadParameter("needs --engine ray", param_hint="--gpus")
    else:
        options["workers"] = options["workers"] or 1
    if pattern is None:
        raise typer.BadParameter("needs --shards PATTERN, such as 'captions/*.parquet'", param_hint="--engine")
    if output is None:
        raise typer.BadParameter("needs --output FOLDER, for the files of scores", param_hint="--shards")
    if output.exists() and not output.is_dir():
        raise typer.BadParameter(f"{output} is a file; with --shards it is a folder", param_hint="--output")
    with show_progress():
        corpus = score(pattern, metrics, output, intervals=intervals, **options)
    show(_table(corpus, digits, scale), corpus.to_dict(), format)
    for target, reason in corpus.rescored.items():
        echo(f"note: {target} was scored again: {reason}")
    if corpus.resumed:
        echo(f"note: {corpus.resumed} of {corpus.shards} shards were finished before")
    if intervals and not corpus.intervals:
        echo(f"note: no intervals: there are none from {MAX_RESAMPLED:,} captions on")
    for reason, (count, ids) in corpus.notes.items():
        echo(f"note: {reason.replace('_', ' ')}: {count:,} ({', '.join(ids)}{', …' if count > len(ids) else ''})")
    for signature in corpus.signatures.values():
        echo(f"signature: {signature}")
    echo(f"scores of every caption and {SUMMARY} in {output}")


def _table(corpus: ShardedCaptions, digits: int | None, scale: float) -> Table:
    decimals = max(0, 4 - round(math.log10(scale))) if digits is None else digits
    table_rows = []
    for metric_name, metric_score in corpus.scores.items():
        interval_bounds = [f"{scale * bound:.{decimals}f}" for bound in corpus.intervals.get(metric_name, ())]
        table_rows.append(
            [
                MetricName(metric_name),
                f"{scale * metric_score:.{decimals}f}",
                *([f"[{', '.join(interval_bounds)}]"] if interval_bounds else []),
            ]
        )
    column_names = ["metric", "score", "95% interval"][: 3 if corpus.intervals else 2]
    title = f"{format_count(corpus.captions, 'caption')} in {format_count(corpus.shards, 'shard')}"
    return Table(title, column_names, table_rows, [False] + [True] * (len(column_names) - 1))
