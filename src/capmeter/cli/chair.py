"""`capmeter chair`: object hallucination as papers report it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from capmeter.captions.caption_set import CaptionSet
from capmeter.captions.load_options import LoadOptions
from capmeter.cli.command import Application
from capmeter.cli.inputs import for_metrics, input_files, load_named_systems
from capmeter.cli.main import echo
from capmeter.cli.options import (
    format_option,
    instances_option,
    level_option,
    output_option,
    resamples_option,
    scale_option,
    seed_option,
    systems_argument,
)
from capmeter.cli.output import command_line, refuse_shared_files, show, show_notes, write_lines
from capmeter.core.errors import InputError
from capmeter.core.messages import format_count, list_names, shorten
from capmeter.core.options import option, option_group
from capmeter.core.progress import show_progress
from capmeter.evaluation.base import RunContext
from capmeter.evaluation.results import Scores, save_all
from capmeter.evaluation.runner import evaluate
from capmeter.meta.comparison import SystemComparison, compare
from capmeter.metrics.hallucination.chair import Chair
from capmeter.report.comparison import difference_table
from capmeter.report.score_table import chair_table, chair_to_dict, citation, part_intervals

app = Application()
_LONGEST = 300  # letters of a caption that is shown


@dataclass(frozen=True, kw_only=True)
class _ChairOptions:
    """What is scored, and with which variant."""

    candidates: list[str] = systems_argument()
    instances: Path | None = instances_option()
    variant: Literal["original", "opera", "lmms-eval"] = option(
        "original",
        "How words are brought to their base form; see docs/hallucination.md.",
        value_type=str,
        choices=("original", "opera", "lmms-eval"),
    )
    synonyms: str = option("bundled", "The words of the objects: `bundled`, or a file such as synonyms.txt.")
    drop_incomplete_sentence: bool = option(
        False, "Ignore what follows the last complete sentence, for captions cut by a token limit."
    )
    worst: int = option(3, "Show the K captions with the most hallucinated objects.", minimum=0, metavar="K")
    output: Path | None = output_option()
    resamples: int = resamples_option()
    seed: int = seed_option()
    level: float = level_option()
    format: str = format_option()
    scale: float = scale_option(100)
    load: LoadOptions = option_group(LoadOptions, without=("images_root", "regions"))


@app.command("chair")
def _chair(options: _ChairOptions) -> None:
    """Measure object hallucination: CHAIRs and CHAIRi with intervals, the worst captions, and a line to cite.

    It is short for `capmeter score -m "chair(objects=FILE)"`.

    **Examples**

    `capmeter chair results.jsonl --instances instances_val2014.json -r captions_val2014.json`

    `capmeter chair ours=a.jsonl theirs=b.jsonl --instances instances_val2014.json --variant opera`
    """
    files = input_files(options.candidates, options.load)
    refuse_shared_files([*files, options.instances, options.synonyms], output=options.output)
    metric = Chair(
        variant=options.variant,
        objects=str(options.instances or ""),
        synonyms=options.synonyms,
        drop_incomplete_sentence=options.drop_incomplete_sentence,
    )
    with show_progress():
        systems = _load_systems(options, metric)
        results = {name: evaluate(captions, [metric]) for name, captions in systems.items()}
        scores = {name: each[metric] for name, each in results.items()}
        intervals = {
            name: part_intervals(each, level=options.level, resamples=options.resamples, seed=options.seed)
            for name, each in scores.items()
        }
        comparison = _compare_rates(systems, metric, options)
    for system in results.values():
        system.command = command_line()
    if options.output is not None:
        save_all(results, options.output)
    lines = []
    for name, each in scores.items():
        name_prefix = f"{name}: " if len(scores) > 1 else ""
        lines += [f"worst: {name_prefix}{line}" for line in _describe_worst(systems[name], each, options.worst)]
        lines.append(f"cite: {name_prefix}{citation(each, intervals[name], options.level)}")
    data = chair_to_dict(scores, intervals, options.level) | {"lines": lines}
    if comparison is not None:
        data["comparison"] = comparison.to_dict(0)
    show(chair_table(scores, intervals, options.scale, options.level), data, options.format)
    if comparison is not None and options.format not in ("json", "csv"):
        show(difference_table(comparison, options.scale), data, options.format)
    if options.format == "table":
        write_lines(lines)
    show_notes(results)


def _compare_rates(systems: dict[str, CaptionSet], metric: Chair, options: _ChairOptions) -> SystemComparison | None:
    """CHAIRs and CHAIRi of several systems compared, with p-values; None, and a note, where captions do not match."""
    if len(systems) < 2:
        return None
    rates = [replace(metric, level="caption"), replace(metric, level="mention")]
    try:
        return compare(systems, rates, seed=options.seed, resamples=options.resamples, level=options.level)
    except InputError as problem:
        echo(f"note: no p-values: {problem}")
        return None


def _load_systems(options: _ChairOptions, metric: Chair) -> dict[str, CaptionSet]:
    """The captions; where no objects are named, each needs references."""
    load = for_metrics(options.load, [metric])
    if options.instances is not None or load.references is not None or load.on_missing != "error":
        return load_named_systems(options.candidates, load)
    systems = load_named_systems(options.candidates, replace(load, on_missing="keep"))
    ids = [caption.id for captions in systems.values() for caption in captions if not caption.references]
    if ids:
        raise InputError(
            f"nothing says which objects the images of {format_count(len(ids), 'caption')} show: "
            f"{list_names(ids)}. Name COCO's instances or a JSON of objects by image (--instances), references "
            "(--references), or both"
        )
    return systems


def _describe_worst(captions: CaptionSet, scores: Scores, count: int) -> list[str]:
    """The captions with the most hallucinated objects: their ids, these objects, and the texts."""
    metric = scores.metric
    if not isinstance(metric, Chair) or scores.values is None:
        return []
    hallucinated_counts = scores.values[:, metric.columns.index("hallucinated")]
    worst_rows = [
        row for row in np.argsort(-hallucinated_counts, kind="stable")[:count].tolist() if hallucinated_counts[row]
    ]
    worst = captions.select(worst_rows)
    return [
        f"{caption.id}: {evidence.facts['hallucinated']}, in {shorten(' '.join(caption.candidate.split()), _LONGEST)}"
        for caption, evidence in zip(worst, metric.explain(worst, RunContext()), strict=True)
    ]
