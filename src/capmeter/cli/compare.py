"""`capmeter compare`: is one system's score really better than another's?"""

from __future__ import annotations

import typer

from capmeter.captions.columns import chosen_columns
from capmeter.captions.files import check_targets
from capmeter.captions.io import load_systems
from capmeter.captions.model import CaptionSet
from capmeter.cli.inputs import label_of, name_and_path
from capmeter.cli.main import CHECK_FAILED, say
from capmeter.cli.options import (
    Columns,
    Device,
    Files,
    Format,
    ImagesRoot,
    InputFormat,
    Level,
    Metrics,
    OnMissingPaired,
    Output,
    Plots,
    Precision,
    References,
    ReferencesFormat,
    Regions,
    Resamples,
    Seed,
    settings_of,
)
from capmeter.cli.output import chosen_metrics, show, tell_notes
from capmeter.errors import InputError
from capmeter.meta.compare import compare as comparison_of
from capmeter.meta.significance_tests import parse as parse_test
from capmeter.metrics.registry import parse_list
from capmeter.progress import shown
from capmeter.report.compare import contrast_table, difference_figure, difference_rows, difference_table, ranking_table
from capmeter.report.figures import save_figures

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")


@app.command()
def compare(
    systems: Files,
    references: References = None,
    metrics: Metrics = "bleu-4,rouge-l,cider-d",
    test: str = typer.Option(
        "permutation", "--test", help="Significance test: permutation, permutation(permutations=2000) or bootstrap."
    ),
    differing: int = typer.Option(
        0, "--differing", "-k", help="Show this many captions on which the first two systems differ most.", min=0
    ),
    by: str | None = typer.Option(None, help="The metric that orders these captions (default: the first)."),
    all_pairs: bool = typer.Option(
        False, "--all-pairs", help="With four or more systems, show all pairs, not only neighbours in the ranking."
    ),
    fail_if_worse: bool = typer.Option(
        False,
        "--fail-if-worse",
        help="Exit with code 4 if the first system is significantly worse than another, under any metric.",
    ),
    format: Format = "table",
    output: Output = None,
    plot: Plots = [],
    permutations: int | None = typer.Option(None, help="Number of permutations (default: 10,000).", min=100),
    resamples: Resamples = 1000,
    level: Level = 0.95,
    seed: Seed = 0,
    device: Device = None,
    precision: Precision = None,
    on_missing: OnMissingPaired = "error",
    images_root: ImagesRoot = None,
    regions: Regions = "",
    column: Columns = [],
    input_format: InputFormat = None,
    references_format: ReferencesFormat = None,
) -> None:
    """Compare systems on the same images: differences, their significance, and the captions that differ most.

    **Examples**

    `capmeter compare --references captions_val2014.json ours=a.json theirs=b.json -m bleu-4,cider-d,rouge-l`

    `capmeter compare -r refs.json a=a.json b=b.json c=c.json --differing 10 --output comparison.json`

    `capmeter compare rows_of_all_systems.jsonl --test bootstrap --format latex`

    `capmeter compare -r refs.json new=new.json released=old.json -m cider-d --fail-if-worse`
    """
    chosen = parse_list(metrics)
    judge = chosen[0] if by is None else chosen_metrics(by, "--by")[0]
    if judge not in chosen:
        raise typer.BadParameter(f"{judge} is not among the metrics of this comparison", param_hint="--by")
    try:
        chosen_test = parse_test(test)
    except InputError as problem:
        raise typer.BadParameter(str(problem), param_hint="--test") from problem
    check_targets(output, *plot)
    captions: dict[str, CaptionSet] = {}
    settings = settings_of(device, precision)
    with shown():
        for given in systems:
            name, file = name_and_path(given)
            found = load_systems(
                file,
                references,
                format=input_format,
                references_format=references_format,
                columns=chosen_columns(column),
                on_missing=on_missing,  # type: ignore[arg-type]
                images_root=images_root or "",
                regions=regions,
            )
            for system, own in found.items():
                captions[label_of(name, system, len(found) == 1, captions)] = own
        comparison = comparison_of(
            captions,
            chosen,
            test=chosen_test,
            seed=seed,
            permutations=permutations,
            resamples=resamples,
            level=level,
            settings=settings,
        )
    if output is not None:
        comparison.save(output, max(differing, 10))
    if plot:
        save_figures(difference_figure(comparison), plot)
    data = comparison.to_dict(differing)
    if format == "csv":
        show(difference_rows(comparison), {}, format)
    elif format == "json":
        show(difference_table(comparison), data, format)
    else:
        if len(captions) > 2:
            show(ranking_table(comparison), data, format)
        few = len(captions) < 4 or all_pairs
        show(difference_table(comparison, neighbours=not few), data, format)
        if differing:
            show(contrast_table(comparison, str(judge), differing), data, format)
    tell_notes(comparison.results)
    if fail_if_worse:
        first = comparison.systems[0]
        lost = [
            f"{other} under {name} (by {verdict.between(other, first).difference:.4g}, "
            f"p {verdict.significance.between(other, first):.2g})"
            for name, verdict in comparison.items()
            for other in comparison.systems[1:]
            if verdict.significance.better(other, first)
        ]
        if lost:
            say(f"failed: {first} is significantly worse than {'; '.join(lost)}")
            raise typer.Exit(CHECK_FAILED)
