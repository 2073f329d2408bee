"""`capmeter score --engine ray`: files of captions in, files of scores out."""

from __future__ import annotations

import math
from pathlib import Path

import typer

from capmeter.cli.main import say
from capmeter.cli.output import show
from capmeter.integrations.shards import MOST_AT_ONCE, SUMMARY, Corpus
from capmeter.metrics.base import Metric
from capmeter.report.names import MetricName
from capmeter.report.tables import Table
from capmeter.settings import Settings

_OPTIONS = {"engine", "shards", "metrics", "output", "references", "workers", "gpus", "intervals", "resamples", "seed"}
_OPTIONS |= {"device", "precision", "format", "digits", "scale"}


def score_on_ray(
    context: typer.Context,
    pattern: str | None,
    metrics: list[Metric],
    output: Path | None,
    *,
    references: str | None,
    workers: int | None,
    gpus: float,
    intervals: bool,
    resamples: int,
    seed: int,
    settings: Settings,
    format: str,
    digits: int | None,
    scale: float,
) -> None:
    """Scores the shards that match a pattern, and shows the scores of all captions."""
    from capmeter.integrations.ray import score_shards
    from capmeter.progress import shown

    if context.params["engine"] != "ray":
        raise typer.BadParameter("needs --engine ray", param_hint="--shards")
    if pattern is None:
        raise typer.BadParameter("needs --shards PATTERN, such as 'captions/*.parquet'", param_hint="--engine")
    if output is None:
        raise typer.BadParameter("needs --output FOLDER, for the files of scores", param_hint="--shards")
    if output.exists() and not output.is_dir():
        raise typer.BadParameter(f"{output} is a file; with --engine ray it is a folder", param_hint="--output")
    for name in context.params:
        source = context.get_parameter_source(name)
        if name not in _OPTIONS and source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter("cannot be combined with --engine ray", param_hint=name.replace("_", "-"))
    output.mkdir(parents=True, exist_ok=True)
    with shown():
        corpus = score_shards(
            pattern,
            metrics,
            output,
            references=references,
            workers=workers or 0,
            gpus=gpus,
            intervals=intervals,
            resamples=resamples,
            seed=seed,
            settings=settings,
        )
    show(_table(corpus, digits, scale), corpus.to_dict(), format)
    _tell(corpus, intervals)
    say(f"scores of every caption and {SUMMARY} in {output}")


def _table(corpus: Corpus, digits: int | None, scale: float) -> Table:
    decimals = max(0, 4 - round(math.log10(scale))) if digits is None else digits
    rows = []
    for name, value in corpus.scores.items():
        row = [MetricName(name), f"{scale * value:.{decimals}f}"]
        if name in corpus.intervals:
            row.append("[" + ", ".join(f"{scale * bound:.{decimals}f}" for bound in corpus.intervals[name]) + "]")
        rows.append(row)
    heads = ["metric", "score", "95% interval"][: 3 if corpus.intervals else 2]
    title = f"{corpus.captions:,} captions in {corpus.shards:,} shard{'s' * (corpus.shards != 1)}"
    return Table(title, heads, rows, [False] + [True] * (len(heads) - 1))


def _tell(corpus: Corpus, intervals: bool) -> None:
    for target, reason in corpus.redone.items():
        say(f"note: {target} was scored again: {reason}")
    if corpus.found:
        say(f"note: {corpus.found} of {corpus.shards} shards were finished before")
    if intervals and not corpus.intervals:
        say(f"note: no intervals: there are none from {MOST_AT_ONCE:,} captions on")
    for reason, (number, ids) in corpus.notes.items():
        say(f"note: {reason.replace('_', ' ')}: {number:,} ({', '.join(ids)}{', …' if number > len(ids) else ''})")
    for signature in corpus.signatures.values():
        say(f"signature: {signature}")
