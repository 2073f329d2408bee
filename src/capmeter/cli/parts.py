"""`capmeter score --parts`: captions in parts, each with a file of scores, in this process, in several, or on Ray."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import typer

from capmeter.cli.main import echo
from capmeter.cli.output import show
from capmeter.core.errors import InputError
from capmeter.core.messages import format_count
from capmeter.evaluation.pools import MAX_WORKERS, WorkerPool
from capmeter.report.tables import MetricName, Table

if TYPE_CHECKING:
    from capmeter.evaluation.part_scores import PartScores


def check_workers(text: str) -> None:
    """Raises unless this is a number of processes, `ray`, or `ray:N`."""
    name, colon, number = text.partition(":")
    count = number if name == "ray" else text
    if (name == "ray" and not colon) or (count.isdecimal() and 1 <= int(count) <= MAX_WORKERS):
        return
    raise InputError(f"expected a number from 1 to {MAX_WORKERS}, ray, or ray:N, but got {text!r}")


def open_workers(text: str, gpus: float) -> int | WorkerPool:
    """The workers that the option names."""
    name, _, number = text.partition(":")
    if name == "ray":
        from capmeter.integrations.ray import RayPool

        return RayPool(int(number or 0), gpus)
    if gpus:
        raise typer.BadParameter("needs --workers ray", param_hint="--gpus")
    return int(text)


def show_part_scores(
    scores: PartScores, label: str, folder: Any, *, format: str, digits: int | None, scale: float, intervals: bool
) -> None:
    """Shows the scores of all captions, and says what was noted.

    Args:
        scores: those of each system.
        label: the system of captions that name none.
        folder: where the scores of single captions are.
        intervals: whether they were asked for.
    """
    from capmeter.evaluation.part_scores import MAX_IMAGES, SUMMARY

    show(_table(scores, label, digits, scale), scores.to_dict(), format)
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


def _table(scores: PartScores, label: str, digits: int | None, scale: float) -> Table:
    decimals = max(0, 4 - round(math.log10(scale))) if digits is None else digits
    rows = []
    for name, of_system in scores.systems.items():
        for metric_name, score in of_system.scores.items():
            bounds = [f"{scale * bound:.{decimals}f}" for bound in of_system.intervals.get(metric_name, ())]
            interval = f"[{', '.join(bounds)}]" if bounds else ""
            rows.append([name or label, MetricName(metric_name), f"{scale * score:.{decimals}f}", interval])
    captions = sum(of_system.captions for of_system in scores.systems.values())
    title = f"{format_count(captions, 'caption')} in {format_count(scores.parts, 'part')}"
    return Table(title, ["system", "metric", "score", "95% interval"], rows, [False, False, True, True])
