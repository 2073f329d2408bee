"""`capmeter explain`: why captions got their scores."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import typer

from capmeter.captions.caption_set import CaptionSet
from capmeter.captions.load import load
from capmeter.captions.load_options import LoadOptions
from capmeter.cli.command import Application
from capmeter.cli.inputs import choose_metrics, for_metrics, name_and_path, read_stored, refuse_unused
from capmeter.cli.options import DeviceOptions, instances_option, scale_option, stored_metrics_option, with_instances
from capmeter.cli.output import write, write_lines
from capmeter.core.errors import InputError
from capmeter.core.messages import list_names
from capmeter.core.options import argument, option, option_group
from capmeter.core.progress import show_progress
from capmeter.evaluation.base import Metric
from capmeter.evaluation.results import Results
from capmeter.report.explain import describe_order, explain, render_explanations, to_dicts

app = Application()
_METRICS = "rouge-l,cider-d"


@dataclass(frozen=True, kw_only=True)
class _ExplainOptions:
    """The captions to explain."""

    candidates: str = argument(
        help="A file of captions, or of results with one system or `--system`. `NAME=FILE` is read as FILE.",
        metavar="CANDIDATES",
    )
    metrics: str = stored_metrics_option(_METRICS)
    id: list[str] = option([], "Explain the caption with this id; repeatable.")
    worst: int | None = option(None, "Explain the K captions with the worst scores.", minimum=1, metavar="K")
    best: int | None = option(None, "Explain the K captions with the best scores.", minimum=1, metavar="K")
    by: str | None = option(None, "The metric that decides which are worst or best (default: the first).")
    format: str = option("text", "What to print.", "--format", "-f", choices=("text", "json"))
    scale: float = scale_option()
    instances: Path | None = instances_option()
    load: LoadOptions = option_group(LoadOptions, without=("split",))
    compute: DeviceOptions = DeviceOptions()


@app.command("explain")
def _explain(options: _ExplainOptions) -> None:
    """Show what each metric matched in a caption, and what it did not match.

    **Examples**

    `capmeter explain results.json -r captions_val2014.json -m cider-d,meteor --worst 5 --by cider-d`

    `capmeter explain rows.jsonl -m bleu-4,rouge-l --id 391895 --format json`

    `capmeter explain scores.json -m cider-d --worst 5`
    """
    best, worst = options.best, options.worst
    if sum((bool(options.id), worst is not None, best is not None)) != 1:
        raise typer.BadParameter("choose captions with exactly one of --id, --worst and --best")
    settings = options.compute.settings()
    with show_progress():
        metrics, stored, captions = _read_captions(options)
        order = "" if options.id else describe_order(metrics, options.by, best is not None)
        explanations = explain(
            captions,
            metrics,
            ids=options.id,
            worst=worst if worst is not None else best,
            by=options.by,
            best=best is not None,
            stored=stored,
            settings=settings,
        )
    if options.format == "json":
        write(json.dumps(to_dicts(explanations, order), indent=2) + "\n")
    else:
        from rich.console import Console

        if order:
            write_lines([f"{len(explanations)} of {len(captions):,} captions by {order}"])
        console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
        console.print(render_explanations(explanations, options.scale))


def _read_captions(options: _ExplainOptions) -> tuple[Sequence[Metric], Results | None, CaptionSet]:
    """The metrics, the captions, and their results where the file is one that `score --output` wrote."""
    _, captions_path = name_and_path(options.candidates)
    systems = read_stored(captions_path)
    if systems is None:
        metrics = with_instances(choose_metrics(options.metrics, [], _METRICS), options.instances)
        return metrics, None, load(captions_path, options=for_metrics(options.load, metrics))
    refuse_unused(replace(options.load, system=None), [captions_path])
    system_name = options.load.system or (next(iter(systems)) if len(systems) == 1 else None)
    if system_name not in systems:
        raise InputError(f"{captions_path} holds the systems {list_names(systems)}; choose one with --system NAME")
    stored_results = systems[system_name]
    if stored_results.captions is None:
        raise InputError(
            f"{captions_path}: the captions of {system_name} were streamed, so that they are not in it; name their file"
        )
    metrics = with_instances(choose_metrics(options.metrics, [stored_results], _METRICS), options.instances)
    if not options.metrics:  # those that can be explained, if any can
        metrics = [each for each in metrics if each.can_explain] or metrics
    return metrics, stored_results, stored_results.captions
