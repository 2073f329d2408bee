"""`capmeter compare`: is one system's score really better than another's?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from capmeter.captions.load_options import LoadOptions
from capmeter.cli.command import Application
from capmeter.cli.inputs import choose_metrics, for_metrics, input_files, name_and_path, open_named_systems, read_stored
from capmeter.cli.main import CHECK_FAILED, echo
from capmeter.cli.options import (
    DeviceOptions,
    control_option,
    format_option,
    instances_option,
    level_option,
    output_option,
    plot_option,
    quiet_option,
    resamples_option,
    scale_option,
    seed_option,
    stored_metrics_option,
    systems_argument,
    with_instances,
)
from capmeter.cli.output import parse_metrics, refuse_shared_files, show, show_notes
from capmeter.core.options import option
from capmeter.core.output_files import write_atomic
from capmeter.core.progress import show_progress
from capmeter.evaluation.base import Metric
from capmeter.meta.comparison import SystemComparison, Test
from capmeter.meta.comparison import compare as compare_systems
from capmeter.meta.length_control import with_equal_lengths
from capmeter.report.comparison import (
    contrast_table,
    difference_figure,
    difference_rows,
    difference_table,
    equal_length_table,
    ranking_table,
)
from capmeter.report.figures import save_figures
from capmeter.stats.significance import PERMUTATIONS

app = Application()
_METRICS = "bleu-4,rouge-l,cider-d"


@dataclass(frozen=True, kw_only=True)
class _CompareOptions:
    """The systems, the test, and what is printed."""

    systems: list[str] = systems_argument()
    metrics: str = stored_metrics_option(_METRICS)
    instances: Path | None = instances_option()
    test: Test = option(
        "permutation",
        "Significance test: system labels swapped within images, or the intervals' resamples.",
        value_type=str,
        choices=("permutation", "bootstrap"),
    )
    differing: int = option(
        0, "Show this many captions on which the first two systems differ most.", "--differing", "-k", minimum=0
    )
    by: str | None = option(None, "The metric that orders these captions (default: the first).")
    all_pairs: bool = option(False, "With four or more systems, show all pairs, not only neighbours in the ranking.")
    fail_if_worse: bool = option(
        False,
        "Exit with code 4 if the first system is significantly worse than another, under any metric.",
        "--fail-if-worse",
    )
    control: str | None = control_option(
        "difference between captions of equal length: the value of a regression on the difference in words at 0"
    )
    common: bool = option(False, "Compare only the captions that all systems have.", "--common")
    format: str = format_option()
    scale: float = scale_option()
    quiet: bool = quiet_option()
    output: Path | None = output_option()
    plot: list[Path] = plot_option()
    permutations: int = option(PERMUTATIONS, "Number of permutations.", minimum=100, maximum=10_000_000)
    resamples: int = resamples_option()
    level: float = level_option()
    seed: int = seed_option()
    load: LoadOptions = LoadOptions()
    compute: DeviceOptions = DeviceOptions()


@app.command()
def compare(options: _CompareOptions) -> None:
    """Compare systems on the same images: differences, their significance, and the captions that differ most.

    **Examples**

    `capmeter compare --references captions_val2014.json ours=a.json theirs=b.json -m bleu-4,cider-d,rouge-l`

    `capmeter compare -r refs.json a=a.json b=b.json c=c.json --differing 10 --output comparison.json`

    `capmeter compare rows_of_all_systems.jsonl --test bootstrap --format latex`

    `capmeter compare -r refs.json new=new.json released=old.json -m cider-d --fail-if-worse`

    `capmeter compare -r refs.json long=long.json short=short.json -m meteor,capmeter --control length`

    `capmeter compare scores.json` compares what `score --output` stored, without scoring again.
    """
    metrics, ordering_metric = _comparison_metrics(options)
    refuse_shared_files(input_files(options.systems, options.load), output=options.output, plot=options.plot)
    with show_progress():
        comparison = compare_systems(
            open_named_systems(options.systems, for_metrics(options.load, metrics)),
            metrics,
            test=options.test,
            seed=options.seed,
            permutations=options.permutations,
            resamples=options.resamples,
            level=options.level,
            common=options.common,
            settings=options.compute.settings(),
        )
        if options.control is not None:
            comparison = with_equal_lengths(comparison)
    if options.output is not None:
        write_atomic(options.output, json.dumps(comparison.to_dict(max(options.differing, 10)), indent=1) + "\n")
    if options.plot:
        save_figures(difference_figure(comparison), options.plot)
    _show_comparison(comparison, options, ordering_metric)
    if not options.quiet:
        show_notes(comparison.results)
    significant_losses = _significant_losses(comparison)
    if options.fail_if_worse and significant_losses:
        echo(f"failed: {comparison.systems[0]} is significantly worse than {'; '.join(significant_losses)}")
        raise typer.Exit(CHECK_FAILED)


def _comparison_metrics(options: _CompareOptions) -> tuple[Sequence[Metric], Metric]:
    """The metrics, and the one that orders captions."""
    result_files = [] if options.metrics else [name_and_path(named_file)[1] for named_file in options.systems]
    stored_results = [results for path in result_files for results in (read_stored(path) or {}).values()]
    metrics = with_instances(choose_metrics(options.metrics, stored_results, _METRICS), options.instances)
    ordering_metric = metrics[0] if options.by is None else parse_metrics(options.by, "--by")[0]
    if ordering_metric not in metrics:
        raise typer.BadParameter(f"{ordering_metric} is not among the metrics of this comparison", param_hint="--by")
    return metrics, ordering_metric


def _show_comparison(comparison: SystemComparison, options: _CompareOptions, ordering_metric: Metric) -> None:
    data = comparison.to_dict(options.differing)
    if options.format == "csv":
        show(difference_rows(comparison), {}, "csv")
        return
    if options.format == "json":
        show(difference_table(comparison), data, "json")
        return
    system_count = len(comparison.systems)
    if system_count > 2:
        show(ranking_table(comparison, options.scale), data, options.format)
    only_neighbours = system_count >= 4 and not options.all_pairs
    show(difference_table(comparison, options.scale, neighbours=only_neighbours), data, options.format)
    if comparison.equal_lengths:
        show(equal_length_table(comparison, options.scale), data, options.format)
    if options.differing:
        table = contrast_table(comparison, str(ordering_metric), options.differing, options.scale)
        show(table, data, options.format)


def _significant_losses(comparison: SystemComparison) -> list[str]:
    """The systems that are significantly better than the first, each with the metric, the difference and p."""
    first_system, *other_systems = comparison.systems
    return [
        f"{other_system} under {name} (by {result.between(other_system, first_system).difference:.4g}, "
        f"p {result.significance.corrected_p(other_system, first_system):.2g})"
        for name, result in comparison.items()
        for other_system in other_systems
        if result.significance.better(other_system, first_system)
    ]
